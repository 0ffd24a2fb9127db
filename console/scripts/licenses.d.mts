export function licenses(modules: string[]): string
