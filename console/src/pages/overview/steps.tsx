import { Link } from '@tanstack/react-router'
import { Check, X } from 'lucide-react'
import type { Key } from '@/i18n'
import { useI18n } from '@/i18n'
import { useLive } from '@/live/context'
import { markStep, useSteps, type Step } from '@/shell/steps'

const where: Record<Exclude<Step, 'hidden'>, { to: string; search?: Record<string, string> }> = {
  chat: { to: '/playground' },
  break: { to: '/' },
  test: { to: '/services' },
  call: { to: '/calls', search: { show: 'retried' } },
  roll: { to: '/services' },
}
/** A gateway with more versions than this is not new any more. */
const fewVersions = 4
/** Nor is one with more instances than this, whose file may have them all in its first version. */
const fewInstances = 12

/** Four things to try first; the list ticks itself, and goes away when all are done. */
export function FirstSteps({ demo, onBreak }: { demo: boolean; onBreak?(): void }) {
  const { t } = useI18n()
  const { snapshot } = useLive()
  const done = useSteps()
  const list = (['chat', demo ? 'break' : 'test', 'call', 'roll'] as const)
  if (done.has('hidden') || list.every((step) => done.has(step))) return null
  if (!demo && (snapshot === null || snapshot.version > fewVersions || snapshot.instances.length > fewInstances)) return null
  const next = list.find((step) => !done.has(step))
  return (
    <div className={demo ? 'steps' : 'panel steps alone'} role="group" aria-label={t('steps.title')}>
      <b>{t('steps.title')}</b>
      <ol>
        {list.map((step, index) => {
          const words = t(`steps.${step}` as Key)
          return (
            <li key={step} className={done.has(step) ? 'done' : step === next ? 'next' : ''}>
              {done.has(step) ? <Check className="ic s14" role="img" aria-label={t('steps.done')} /> : <span className="n">{index + 1}</span>}
              {step === 'break' ? (
                <button type="button" className="link" onClick={onBreak}>
                  {words}
                </button>
              ) : (
                <Link to={where[step].to} search={(demo ? (where[step].search ?? {}) : {}) as never} title={t(`steps.${step}.hint` as Key)}>
                  {words}
                </Link>
              )}
            </li>
          )
        })}
      </ol>
      <button type="button" className="btn ghost icon" aria-label={t('steps.hide')} title={t('steps.hide')} onClick={() => markStep('hidden')}>
        <X className="ic s14" aria-hidden />
      </button>
    </div>
  )
}
