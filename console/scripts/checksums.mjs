// The hashes of the sources of the console and of the files that were built from
// them, as `sha256sum` writes them. embed_test.go compares the list in
// dist.sha256 with what is there, so that nobody forgets to build.
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'

const roots = ['dist', 'index.html', 'package-lock.json', 'package.json', 'public', 'src', 'tsconfig.json', 'vite.config.ts']

// The types of the API are made before each build, and leave no trace in what is built.
const generated = 'src/api/schema.ts'

// The sentences of wings, each in its folder.
const wings = '../internal/wings'
const ofWings = readdirSync(wings).map((name) => `${wings}/${name}/sentences.zh.ts`).filter(existsSync)

const filesOf = (path) => (statSync(path).isDirectory() ? readdirSync(path).flatMap((name) => filesOf(`${path}/${name}`)) : [path])

export function checksums() {
  const paths = [...roots.flatMap(filesOf).filter((path) => path !== generated), ...ofWings].sort()
  return paths.map((path) => `${createHash('sha256').update(readFileSync(path)).digest('hex')}  ${path}\n`).join('')
}
