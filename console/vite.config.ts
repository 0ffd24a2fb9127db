import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import tailwindcss from '@tailwindcss/vite'
import react from '@vitejs/plugin-react'
import type { Plugin } from 'vite'
import { defineConfig } from 'vitest/config'
import { checksums } from './scripts/checksums.mjs'
import { licenses } from './scripts/licenses.mjs'

// During development the pages come from Vite and everything else from a real
// gateway, by default that of `patchbay demo`.
const gateway = process.env.PATCHBAY_URL ?? 'http://127.0.0.1:8080'

// The policy that the gateway sends with the console. Vite's client needs more
// (its own styles are inline), so it applies to the built files only.
const contentSecurityPolicy =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
  "img-src 'self' blob: data:; media-src 'self' blob: data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const proxy = Object.fromEntries(
  ['/api', '/v1', '/actuator', '/openapi.json', '/docs'].map((path) => [path, { target: gateway, changeOrigin: true }]),
)

/** Writes down of which sources the committed files were made. */
function fingerprints(): Plugin {
  let into = ''
  return {
    name: 'fingerprints',
    apply: 'build',
    configResolved: (config) => void (into = config.build.outDir),
    closeBundle: () => (into === 'dist' ? writeFileSync('dist.sha256', checksums()) : undefined),
  }
}

/** Writes the licences of all packages that are in the built files. */
function notices(): Plugin {
  return {
    name: 'notices',
    apply: 'build',
    generateBundle(_, bundle) {
      const modules = Object.values(bundle).flatMap((file) => (file.type === 'chunk' ? file.moduleIds : []))
      this.emitFile({ type: 'asset', fileName: 'assets/licenses.txt', source: licenses(modules) })
    },
  }
}

export default defineConfig({
  plugins: [react(), tailwindcss(), notices(), fingerprints()],
  resolve: { alias: { '@': fileURLToPath(new URL('./src', import.meta.url)) } },
  // Scripts name each other relative to their own address.
  experimental: { renderBuiltUrl: (_, { hostType }) => (hostType === 'js' ? { relative: true } : undefined) },
  server: { host: '127.0.0.1', port: 5173, proxy },
  preview: { host: '127.0.0.1', port: 4173, proxy, headers: { 'Content-Security-Policy': contentSecurityPolicy } },
  build: {
    target: 'es2022',
    cssCodeSplit: false,
    // The gateway serves the files of each build below an address of their own,
    // so names need no hash, and the differences of the committed files stay small.
    rollupOptions: {
      output: {
        entryFileNames: 'assets/[name].js',
        chunkFileNames: 'assets/[name].js',
        assetFileNames: 'assets/[name][extname]',
        // Few files with names that say what is in them.
        codeSplitting: {
          groups: [
            // A group takes along what its files need, so what all need comes first.
            { name: 'react', test: /node_modules[\\/](react|react-dom|scheduler)[\\/]/, priority: 1 },
            { name: 'uplot', test: /node_modules[\\/]uplot/ },
            { name: 'virtual', test: /node_modules[\\/]@tanstack[\\/](react-)?virtual/ },
            { name: 'vendor', test: /node_modules/ },
            { name: 'shared', test: /src[\\/](api|i18n[\\/](index|en)|lib|live|shell|ui[\\/](?!chart))/ },
          ],
        },
      },
    },
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
  },
  test: { include: ['tests/**/*.test.{ts,tsx}'], environment: 'node' },
})
