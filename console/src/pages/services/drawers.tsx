import { useCallback, type ReactNode } from 'react'
import { serviceTypes, type ServiceType } from '@/api/types'
import { renamed } from '@/lib/url'
import { useSearchState } from '@/shell/search'
import { AddBackend } from './add-backend'
import { InstanceDrawer } from './instance-drawer'
import { PolicyDrawer } from './policy-drawer'
import type { useRows } from './rows'

/** The drawer that the address asks for: an instance that is edited or added, or the policies of a service. */
export function useServiceDrawer({ query, rows, services, version }: ReturnType<typeof useRows>): { drawer: ReactNode; close(): void } {
  const [search, setSearch] = useSearchState()
  const close = useCallback(() => setSearch({ edit: undefined, add: undefined, from: undefined, hand: undefined, policy: undefined, alias: undefined }), [setSearch])
  const slash = (search.edit ?? '').indexOf('/')
  const editing = slash < 0 ? undefined : rows.find((row) => row.service === search.edit!.slice(0, slash) && row.id === search.edit!.slice(slash + 1))
  const adding = serviceTypes.includes(search.add as ServiceType) ? (search.add as ServiceType) : undefined
  const policy = serviceTypes.find((type) => type === search.policy && services[type] !== undefined)
  const from = rows.find((row) => row.service === adding && row.id === search.from)
  const drawer =
    editing !== undefined ? (
      <InstanceDrawer key={search.edit} service={editing.service} value={services[editing.service]} stored={editing.instance} copied={null} version={version} onClose={close} onSaved={(id) => setSearch((old) => renamed(old, editing.service, editing.id, id))} />
    ) : adding !== undefined && query.data !== undefined && from === undefined && search.hand === undefined ? (
      <AddBackend version={version} onClose={close} onHand={() => setSearch({ hand: '1' })} />
    ) : adding !== undefined && query.data !== undefined ? (
      <InstanceDrawer key={`add ${adding} ${search.from}`} service={adding} value={services[adding]} stored={null} copied={from?.instance ?? null} version={version} onClose={close} onSaved={(id) => setSearch((old) => (old.add === adding ? { ...old, add: undefined, from: undefined, hand: undefined, edit: `${adding}/${id}` } : old))} />
    ) : policy !== undefined ? (
      <PolicyDrawer key={`${policy} ${search.alias}`} alias={search.alias} service={policy} value={services[policy]!} version={version} onClose={close} />
    ) : null
  return { drawer, close }
}
