import { fileURLToPath } from 'node:url'
import tailwindcss from '@tailwindcss/vite'
import react from '@vitejs/plugin-react'
import { defineConfig } from 'vitest/config'

// During development the pages come from Vite and everything else from a real
// gateway, by default that of `patchbay demo`.
const gateway = process.env.PATCHBAY_URL ?? 'http://127.0.0.1:8080'

// The policy that the gateway sends with the console. Vite's client needs more
// (its own styles are inline), so it applies to the built files only.
export const contentSecurityPolicy =
  "default-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; object-src 'none'; " +
  "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

const proxy = Object.fromEntries(
  ['/api', '/v1', '/actuator', '/openapi.json', '/docs'].map((path) => [path, { target: gateway, changeOrigin: true }]),
)

export default defineConfig({
  plugins: [react(), tailwindcss()],
  resolve: { alias: { '@': fileURLToPath(new URL('./src', import.meta.url)) } },
  server: { host: '127.0.0.1', port: 5173, proxy },
  preview: { host: '127.0.0.1', port: 4173, proxy, headers: { 'Content-Security-Policy': contentSecurityPolicy } },
  build: {
    target: 'es2022',
    cssCodeSplit: false,
    // The gateway answers with an ETag of the bytes, so names need no hash:
    // the differences of the committed files stay small.
    rollupOptions: {
      output: {
        entryFileNames: 'assets/[name].js',
        chunkFileNames: 'assets/[name].js',
        assetFileNames: 'assets/[name][extname]',
        // Few files with names that say what is in them.
        advancedChunks: {
          groups: [
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
