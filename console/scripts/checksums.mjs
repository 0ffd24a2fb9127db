// The hashes of the sources of the console and of the files that were built from
// them, as `sha256sum` writes them. embed_test.go compares the list in
// dist.sha256 with what is there, so that nobody forgets to build.
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, statSync } from 'node:fs'

const roots = ['dist', 'index.html', 'package-lock.json', 'package.json', 'public', 'src', 'tsconfig.json', 'vite.config.ts']

// The types of the API are made before each build, and leave no trace in what is built.
const generated = 'src/api/schema.ts'

const filesOf = (path) => (statSync(path).isDirectory() ? readdirSync(path).flatMap((name) => filesOf(`${path}/${name}`)) : [path])

export function checksums() {
  const paths = roots.flatMap(filesOf).filter((path) => path !== generated).sort()
  return paths.map((path) => `${createHash('sha256').update(readFileSync(path)).digest('hex')}  ${path}\n`).join('')
}
