// The meters that the overview and the pages of objects have in common.
import { axis, digits, duration, missing, rate, text } from '@/lib/format'
import type { LineSpec, MeterSpec } from './chart-meter'

const sum = (values: (number | null)[]) => ({ value: values[0] == null ? missing : digits(values.reduce<number>((total, value) => total + (value ?? 0), 0)), unit: '' })

/** Requests by how they ended: answered, failed, and what else the page tells apart. */
export const requests = <K extends string>(...refused: LineSpec<K>[]): MeterSpec<K | 'answered' | 'failed'> => ({
  title: 'overview.requests',
  unit: 'common.perSecond',
  lines: [
    { series: 'answered', name: 'overview.answered', tone: 'accent', fill: true, legend: '' },
    { series: 'failed', name: 'overview.failed', tone: 'bad-fill', width: 1.4, legend: 'b' },
    ...refused,
  ],
  reading: sum,
  value: (value) => rate(value),
  max: (value) => digits(value),
})

/** Two lines of which the first is what counts. */
const pair = <A extends string, B extends string>(first: A, firstName: LineSpec<A>['name'], second: B, secondName: LineSpec<B>['name']): LineSpec<A | B>[] => [
  { series: first, name: firstName, tone: 'accent', legend: '' },
  { series: second, name: secondName, tone: 'ink-3', width: 1.2, legend: 'n' },
]

/** The median and the 95th percentile of a duration. */
export const percentiles = <A extends string, B extends string>(title: MeterSpec<A>['title'], p95: A, p50: B, read: typeof duration): MeterSpec<A | B> => ({
  title,
  band: true,
  lines: pair(p95, 'p95', p50, 'p50'),
  reading: (values) => read(values[0]),
  value: (value) => text(read(value)),
  max: (value) => axis(read(value)),
})

export const latency: MeterSpec<'p95' | 'p50' | 'firstToken'> = { ...percentiles('overview.latency', 'p95', 'p50', duration), extra: { series: 'firstToken', name: 'pg.firstToken' } }

export const tokens: MeterSpec<'tokensOut' | 'tokensIn'> = {
  title: 'overview.tokens',
  unit: 'common.perSecond',
  lines: pair('tokensOut', 'overview.out', 'tokensIn', 'overview.in'),
  reading: sum,
  value: (value) => (value === null ? missing : digits(value)),
  max: (value) => digits(value),
}
