import { Link } from '@tanstack/react-router'
import { useI18n } from '@/i18n'
import { oneOf } from '@/lib/url'
import { usePageFact } from '@/shell/fact'
import { useDenied } from '@/shell/guard'
import { useSearchState } from '@/shell/search'
import { useMe } from '@/shell/session'
import { Segments } from '@/ui/parts'
import { ApiKeys } from './api-keys'
import { Audit } from './audit'
import { People } from './people'
import { Roles } from './roles'
import { Tokens } from './tokens'

const tabs = ['keys', 'tokens', 'people', 'roles', 'audit'] as const

/** Who may call, who may manage, and what each role may do. */
export default function Keys() {
  const { t } = useI18n()
  usePageFact(t('key.sum'))
  const [search, setSearch] = useSearchState()
  const me = useMe()
  const denied = useDenied('auth:key:manage')
  if (denied !== undefined) return <div className="note">{denied}</div>
  // Without security nobody shows a token, and the gateway issues none.
  if (me?.securityEnabled !== true) return <ApiKeys />
  const tab = oneOf(search.tab, tabs)
  return (
    <>
      <div className="bar">
        <Segments label={t('nav.keys')} value={tab} options={tabs.map((value) => ({ value, label: t(`key.tab.${value}`) }))} onChange={(value) => setSearch({ tab: value === 'keys' ? undefined : value, create: undefined, key: undefined, issue: undefined, who: undefined, what: undefined, from: undefined, to: undefined, page: undefined, record: undefined })} />
        <Link className="btn ghost" to="/tenant">{t('wrong.tenants')}</Link>
      </div>
      {tab === 'keys' ? <ApiKeys /> : tab === 'tokens' ? <Tokens /> : tab === 'people' ? <People /> : tab === 'audit' ? <Audit /> : <Roles />}
    </>
  )
}
