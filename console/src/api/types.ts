// Short names for the generated types that the pages use.
import type { components } from './schema'

type Schemas = components['schemas']

/** A sentence of the gateway as its code and the values in it. */
export type Sentence = Schemas['SaySentence']
export type Code = Sentence['code']
export type ServiceType = Schemas['ServiceType']
export type BalanceStrategy = Schemas['BalanceStrategy']
export type BreakerState = Schemas['BreakerState']
export type Difference = Schemas['Difference']
export type Change = Schemas['Change']
export type Instance = Schemas['Instance']
export type InstanceInput = Schemas['InstanceInput']
export type InstanceChanges = Schemas['InstanceChanges']
export type Service = Schemas['Service']
export type ServiceInput = Schemas['ServiceInput']
export type Key = Schemas['Key']
export type Version = Schemas['Version']
export type Usage = Schemas['QuotaUsage']
export type QuotaConfig = Schemas['QuotaConfig']
export type QuotaStatus = Schemas['QuotaStatus']
export type Explain = Schemas['Explanation']
export type BreakerStatus = Schemas['BreakerStatus']
export type InstanceStatus = Schemas['InstanceStatus']
export type LimitStatus = Schemas['LimitStatus']
export type Degradation = Schemas['Degradation']
export type Problem = Schemas['Problem']
export type ProblemGroup = Schemas['Group']
export type RunningCall = Schemas['RunningCall']
export type Gateway = Schemas['Member']
export type Resident = Schemas['Resident']
export type Process = Schemas['Process']
export type ProcessDetail = Schemas['ProcessDetail']
export type FleetModel = Schemas['FleetModel']
export type FleetUse = Schemas['FleetUse']
export type Share = Schemas['Share']
export type ShareChange = Schemas['ShareChange']
export type ErrorStats = Schemas['ErrorStats']
export type CacheStats = Schemas['CacheStats']
export type MonitoringConfig = Schemas['Monitoring']
export type LoggerList = Schemas['LoggerList']
export type Health = Schemas['Health']

export type CallList = Schemas['CallList']
export type CallSummary = Schemas['CallSummary']
export type CallNames = Schemas['CallNames']
export type Me = Schemas['Self']
export type TestResult = Schemas['Result']
export type Discovered = Schemas['Discovery']
export type Provider = Schemas['ProvidersProvider']

/** The demo's own operations are described by the demo's document only. */
export interface DemoState {
  traffic: boolean
  requestsPerSecond: number
  faults: { instanceId: string; fault: 'down' | 'slow'; until?: string }[]
}

export type LiveSnapshot = Schemas['LiveSnapshot']
export type LiveInstance = Schemas['LiveInstance']
export type LiveChange = Schemas['LiveChange']
export type LiveWindow = Schemas['LiveWindow']
export type LiveHistory = Schemas['LiveHistory']
export type Figure = Schemas['LiveFigure']
export type FigureList = Schemas['LiveFigureList']

/** How urgent a request is while it waits. */
export type Priority = Schemas['Class']

/** The most urgent one first. */
export const priorities: Priority[] = ['interactive', 'normal', 'batch']

export const serviceTypes: ServiceType[] = ['chat', 'embedding', 'rerank', 'tts', 'stt', 'imgGen', 'imgEdit']

/** One call as the gateway remembers it; what it could not tell is empty. */
export type Call = Omit<Schemas['Call'], 'model' | 'instance' | 'httpStatus' | 'usage' | 'timeline'> & {
  /** Brief calls have none; what shows it asks for the whole call. */
  timeline: NonNullable<Schemas['Call']['timeline']>
  model: string
  instance: string
  httpStatus: number
  usage?: Schemas['CallUsage']
}

/** A call that was refused early has no model or instance to tell of. */
export function toCall(call: Schemas['Call'] | Call): Call {
  return { ...call, timeline: call.timeline as Call['timeline'], model: call.model ?? '', instance: call.instance ?? '', httpStatus: call.httpStatus ?? 0, usage: call.usage ?? undefined }
}

/** What may be said about a key when it is issued or changed. */
export type KeyInput = Schemas['KeyRequest']
/** What may be said about the terms of a tenant. */
export type TenantTerms = Omit<KeyInput, 'id' | 'tenant' | 'userHeader'>
export type Token = Schemas['Token']
export type HeldSession = Schemas['HeldSession']
/** People: what one may, what a team may, and who belongs to it. */
export type Person = Schemas['DeskMe']
export type Place = Schemas['DeskPlace']
export type TeamPlace = Schemas['DeskTeam']
export type TeamBudgets = Schemas['DeskTeamBudgets']
export type TeamMember = Schemas['DeskMember']
export type AuditRecord = Schemas['AuditRecord']
export type AuditHead = Schemas['AuditHead']
export type TokenInput = Schemas['TokenRequest']
export type BudgetUse = Schemas['BudgetUse']
export type Batch = Schemas['ManagedBatch']
export type BatchLine = Schemas['BatchLine']
export type Spend = Schemas['Spend']
export type SpendGroup = Schemas['SpendGroup']
export type SpendBy = Schemas['SpendDimension']
