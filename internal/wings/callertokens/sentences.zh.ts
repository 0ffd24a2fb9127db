/** The sentences of this feature in Chinese, by their codes. */
export const said = {
  'token.unknown_issuer': '需要有效的 API 密钥或令牌：没有任何 security.jwt 使用此签发者（令牌的“iss”声明）。该值逐字比较，包括末尾的斜杠。',
  'token.no_rule': '此网关没有规则允许该令牌的持有者访问。',
  'token.no_tenant': '令牌没有给出可用的租户：需要声明“{claim}”。',
  'field.issuer_name': '只能由字母、数字、- 和 _ 组成',
  'field.jwks': '必须设置，除非设置了 {other}',
  'field.jwks_both': '不能与 {other} 同时设置',
}
