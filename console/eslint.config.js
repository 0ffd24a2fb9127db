import js from '@eslint/js'
import hooks from 'eslint-plugin-react-hooks'
import tseslint from 'typescript-eslint'

export default tseslint.config(
  { ignores: ['dist', 'node_modules', 'screenshots', 'src/api/schema.ts'] },
  js.configs.recommended,
  ...tseslint.configs.strict,
  { rules: { '@typescript-eslint/no-non-null-assertion': 'off' } },
  {
    files: ['src/**/*.{ts,tsx}'],
    plugins: { 'react-hooks': hooks },
    rules: {
      'react-hooks/rules-of-hooks': 'error',
      'react-hooks/exhaustive-deps': 'error',
      'max-lines': ['error', { max: 400, skipBlankLines: true, skipComments: true }],
      // Text of models, backends and callers is shown as text only.
      'no-restricted-syntax': [
        'error',
        { selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']", message: 'Show text as text.' },
        { selector: "MemberExpression[property.name='innerHTML']", message: 'Show text as text.' },
      ],
      'no-eval': 'error',
      'no-implied-eval': 'error',
      'no-new-func': 'error',
    },
  },
  { files: ['src/i18n/*.ts'], rules: { 'max-lines': 'off' } },
  {
    files: ['scripts/**/*.mjs', 'public/**/*.js', '*.js'],
    languageOptions: {
      globals: { Blob: 'readonly', Buffer: 'readonly', FormData: 'readonly', ReadableStream: 'readonly', Response: 'readonly', TextEncoder: 'readonly', sessionStorage: 'readonly', console: 'readonly', fetch: 'readonly', process: 'readonly', URL: 'readonly', URLSearchParams: 'readonly', document: 'readonly',
        localStorage: 'readonly', matchMedia: 'readonly', navigator: 'readonly', setTimeout: 'readonly', setInterval: 'readonly', clearInterval: 'readonly', performance: 'readonly', window: 'readonly', location: 'readonly', requestAnimationFrame: 'readonly' },
    },
  },
)
