/** The sentences of this feature in Chinese, by their codes. */
export const said = {
  'field.spend_range': '应为 from 之后的时间，且最多相隔十年',
  'field.from_required': '给出 to 时必填',
}
