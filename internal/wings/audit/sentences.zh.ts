/** The sentences of this feature in Chinese, by their codes. */
export const said = {
  'audit.away': '目前无法读取审计记录；原因见网关的日志。',
  'audit.whole': 'jsonl 是全部记录，仅供管理员读取',
  'audit.format': '必须是 json 或 jsonl',
  'field.syslog': '必须是形如 tcp://logs.example:601、tls://logs.example:6514 或 unix:///dev/log 的地址',
}
