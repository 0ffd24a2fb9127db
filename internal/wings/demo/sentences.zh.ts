/** The sentences of this feature in Chinese, by their codes. */
export const said = {
  'manage.no_simulated': '找不到：“{instance}”背后没有模拟后端',
}
