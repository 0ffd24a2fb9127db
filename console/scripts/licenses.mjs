// The licences of everything that is built into the console. Whoever passes on the files
// owes their notices, so that the build writes them beside the scripts, where the gateway
// serves them and the packages of a release take them from (deploy/dist).
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** What is not a module of the bundle and yet in it: Tailwind's base styles, and the few lines with which chunks load each other. */
const always = ['tailwindcss', 'rolldown']

/** Returns the folder of the package that a module belongs to. */
function packageOf(module) {
  let folder = dirname(module.split('?')[0])
  while (folder.includes('node_modules')) {
    const manifest = join(folder, 'package.json')
    if (existsSync(manifest) && JSON.parse(readFileSync(manifest, 'utf8')).version) return folder
    folder = dirname(folder)
  }
  throw new Error(`${module} belongs to no package`)
}

/** The licence of a package that names it and does not have its text. */
const mit = (author) => `The package has no file with its licence. Its manifest names the MIT licence and this author:

Copyright (c) ${author}

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.`

function describe(folder) {
  const { name, version, license, author } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  const texts = readdirSync(folder)
    .filter((file) => /^(licen[cs]e|copying|notice)/i.test(file))
    .sort()
    .map((file) => readFileSync(join(folder, file), 'utf8').replaceAll('\r\n', '\n').trim())
  if (license === 'MIT' && author && texts.length === 0) texts.push(mit(author.name ?? author))
  if (!license || texts.length === 0) throw new Error(`${name} ${version} has no licence, or not its text`)
  return { name, version, license, text: texts.join('\n\n') }
}

/** Returns the list of packages, and after it their licences, of the modules of a bundle. */
export function licenses(modules) {
  const folders = new Set(modules.filter((module) => module.includes('node_modules')).map(packageOf))
  for (const name of always) folders.add(join('node_modules', name))
  const packages = [...folders].map(describe)
  const seen = new Map(packages.map((p) => [`${p.name} ${p.version}`, p]))
  const sorted = [...seen.keys()].sort().map((key) => seen.get(key))
  const list = sorted.map((p) => `${p.name.padEnd(60)} ${p.version.padEnd(40)} ${p.license}\n`).join('')
  const sharing = new Map() // many packages are parts of one project
  for (const p of sorted) sharing.set(p.text, [...(sharing.get(p.text) ?? []), p])
  const texts = [...sharing].map(([text, of]) => `\n${'='.repeat(78)}\n${of.map((p) => `${p.name} ${p.version}\n`).join('')}\n${text}\n`).join('')
  return `The console of Patchbay is built of these packages. Their licences follow.\n\n${list}${texts}`
}
