export function checksums(): string
