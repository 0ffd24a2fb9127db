/** The sentences of this feature in Chinese, by their codes. */
export const said = {
  'field.beyond': '超出 {of}',
  'field.beyond_number': '最多为 {most}（由 {of} 允许）',
  'field.beyond_time': '不得晚于 {most}（由 {of} 允许）',
  'field.nothing_left': '没有 {of} 与之前条款都允许的内容；请联系管理员',
  'field.unlimited': '不能为负数：自己的密钥不能没有别人都有的限制',
  'field.which_tenant': '必须是您的租户之一：{known}',
  'field.label': '必须是 1 到 128 字节且不含控制字符的名称',
  'manage.gateways_key': '此密钥由配置文件或网关管理员创建，只有他们可以修改或轮换；您可以吊销它。',
  'manage.others_key': '此密钥由另一位成员创建，只有其本人可以轮换；您可以吊销它。',
  'manage.no_member': '租户 {tenant} 没有这位成员',
}
