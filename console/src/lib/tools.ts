// How tools are connected to the gateway, with address and model filled in.
import { shell, snippet } from './snippets'

export type Tool = 'claude' | 'codex' | 'cursor' | 'continue' | 'python' | 'curl'
export const tools: readonly { value: Tool; label: string }[] = [
  { value: 'claude', label: 'Claude Code' },
  { value: 'codex', label: 'Codex' },
  { value: 'cursor', label: 'Cursor' },
  { value: 'continue', label: 'Continue' },
  { value: 'python', label: 'Python' },
  { value: 'curl', label: 'curl' },
]

/** The settings of a tool. The key is in the variable PATCHBAY_KEY and never written out. */
export function connect(tool: Tool, origin: string, model: string): string {
  const request = { origin, path: '/v1/chat/completions', json: { model, messages: [{ role: 'user', content: 'Hello' }] }, key: true }
  const text = JSON.stringify
  switch (tool) {
    case 'claude':
      return [shell`export ANTHROPIC_BASE_URL=${origin}`, 'export ANTHROPIC_AUTH_TOKEN="$PATCHBAY_KEY"', shell`claude --model ${model}`].join('\n')
    case 'codex':
      return ['# ~/.codex/config.toml', `model = ${text(model)}`, 'model_provider = "patchbay"', '', '[model_providers.patchbay]', 'name = "Patchbay"', `base_url = ${text(`${origin}/v1`)}`, 'env_key = "PATCHBAY_KEY"', 'wire_api = "responses"'].join('\n')
    case 'cursor':
      return ['Settings > Models > API Keys', `Override OpenAI Base URL: ${origin}/v1`, 'OpenAI API Key: the key', `Add model: ${model}`].join('\n')
    case 'continue':
      return ['# ~/.continue/config.yaml', 'models:', `  - name: ${text(model)}`, '    provider: openai', `    model: ${text(model)}`, `    apiBase: ${text(`${origin}/v1`)}`, '    apiKey: ${{ secrets.PATCHBAY_KEY }}'].join('\n')
    case 'python':
    case 'curl':
      return snippet(tool, request)
  }
}
