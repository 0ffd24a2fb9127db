/** The sentences of this feature in Chinese, by their codes. */
export const said = {
  'call.flight': '网关放弃了这个请求与相同请求共用的调用。',
  'manage.cache_away': '无法连接回答缓存的存储；可能还有部分回答：{why}',
  'call.not_shared': '回答由另一个模型继续，不再共用；请重新发送请求。',
  'call.read_slowly': '回答与相同的请求共用，而这个客户端读取过慢，余下的部分无法保留；请重新发送请求。',
}
