import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useCallback } from 'react'
import { useI18n } from '@/i18n'
import { markStep } from '@/shell/steps'
import { useToast } from '@/ui/feedback'
import { api, ApiError, data } from './client'
import { nextVersion } from './queries'
import type { Change, Instance, InstanceChanges, InstanceInput, ServiceInput, ServiceType, TenantTerms } from './types'

/** An edit of the configuration, based on the version that was shown. */
export type Edit =
  | { kind: 'add'; service: ServiceType; instance: InstanceInput }
  | { kind: 'addAll'; instances: { serviceType: ServiceType; instance: InstanceInput }[]; residency: boolean }
  | { kind: 'update'; service: ServiceType; id: string; instance: InstanceChanges }
  | { kind: 'remove'; service: ServiceType; instance: Instance }
  | { kind: 'service'; service: ServiceType; value: ServiceInput }
  | { kind: 'create'; service: ServiceType; value: ServiceInput }
  | { kind: 'delete'; service: ServiceType }
  | { kind: 'tenant'; tenant: string; terms: TenantTerms }
  | { kind: 'dropTenant'; tenant: string }
  | { kind: 'rollback'; version: number }

function send(edit: Edit, version: number | undefined): Promise<Change> {
  const header = version === undefined ? {} : { 'If-Match': `"${version}"` }
  switch (edit.kind) {
    case 'add':
      return data(api.POST('/api/config/instance/add/{serviceType}', { params: { path: { serviceType: edit.service }, header }, body: edit.instance }))
    case 'addAll':
      return data(api.POST('/api/config/instance/add', { params: { header }, body: { instances: edit.instances, residency: edit.residency } })) as Promise<Change>
    case 'update':
      return data(
        api.PUT('/api/config/instance/update/{serviceType}', {
          params: { path: { serviceType: edit.service }, header },
          body: { instanceId: edit.id, instance: edit.instance },
        }),
      )
    case 'remove':
      return data(
        api.DELETE('/api/config/instance/del/{serviceType}', {
          params: { path: { serviceType: edit.service }, query: { modelName: modelOf(edit.instance), baseUrl: edit.instance.baseUrl }, header },
        }),
      )
    case 'service':
      return data(api.PUT('/api/config/type/services/{serviceType}', { params: { path: { serviceType: edit.service }, header }, body: edit.value }))
    case 'create':
      return data(api.POST('/api/config/type/services/{serviceType}', { params: { path: { serviceType: edit.service }, header }, body: edit.value }))
    case 'delete':
      return data(api.DELETE('/api/config/type/services/{serviceType}', { params: { path: { serviceType: edit.service }, header } }))
    case 'tenant':
      return data(api.PUT('/api/config/terms/tenants/{tenant}', { params: { path: { tenant: edit.tenant }, header }, body: edit.terms })) as Promise<Change>
    case 'dropTenant':
      return data(api.DELETE('/api/config/terms/tenants/{tenant}', { params: { path: { tenant: edit.tenant }, header } })) as Promise<Change>
    case 'rollback':
      return data(api.POST('/api/config/version/rollback/{version}', { params: { path: { version: edit.version }, header } })) as Promise<Change>
  }
}

/** The first part of an instance's id: its model, or what stands for those that it finds. */
export function modelOf({ instanceId, name, baseUrl }: Pick<Instance, 'instanceId' | 'name' | 'baseUrl'>): string {
  return instanceId.endsWith(`@${baseUrl}`) ? instanceId.slice(0, -baseUrl.length - 1) : name === '' ? '*' : name
}

/** The number of the version that the next change makes: numbers only grow, also after a roll-back. */
export function useNextVersion(current: number): number {
  const { data: next } = useQuery({ ...nextVersion(current), retry: false })
  return next ?? current + 1
}

/**
 * Edits the configuration, and offers to undo it: undo is a roll-back to the
 * version that was in force just before.
 */
export function useEdit() {
  const { t } = useI18n()
  const toast = useToast()
  const client = useQueryClient()
  const refresh = useCallback(() => Promise.all(['config', 'versions', 'explain', 'shares', 'terms', 'quota'].map((key) => client.invalidateQueries({ queryKey: [key] }))), [client])
  return useMutation({
    mutationFn: async ({ edit, version }: { edit: Edit; version?: number; undoTo?: number; said?: string }) => send(edit, version),
    // A conflict is shown with what the others have saved.
    onError: (error) => (error instanceof ApiError && error.status === 409 ? refresh() : undefined),
    onSuccess: async (change, { edit, version, undoTo = version, said }) => {
      if (edit.kind === 'rollback') markStep('roll')
      await refresh()
      if (said === undefined) return
      const number = change.version ?? 0
      if (change.changed === false) {
        toast(t('services.unchanged', { n: number }))
        return
      }
      const undo =
        undoTo === undefined || edit.kind === 'rollback'
          ? undefined
          : {
              label: t('common.undo'),
              run: () =>
                void send({ kind: 'rollback', version: undoTo }, undefined)
                  .then(refresh)
                  .then(() => {
                    markStep('roll')
                    toast(t('ver.rolled', { n: undoTo }))
                  }),
            }
      toast(t('services.saved', { what: said === '' ? '' : `${said} `, n: number }).trim(), undo)
    },
  })
}
