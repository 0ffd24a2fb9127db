/** What /actuator/health has of each dependency. */
export interface Health {
  components?: Record<string, { status?: string; details?: { reason?: string } }>
}

/** Why the configuration file is not in force; undefined if it is, or if there is none. */
export function fileFault(health: Health | undefined): string | undefined {
  const file = health?.components?.configFile
  return file === undefined || file.status === 'UP' ? undefined : (file.details?.reason ?? '')
}
