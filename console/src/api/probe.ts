// One minimal real call for each service type, as a client would send it.
import type { ServiceType } from './types'

/** Half a second of silence: 16-bit PCM at 8 kHz. */
export function silence(): Blob {
  const samples = 4000
  const view = new DataView(new ArrayBuffer(44 + samples * 2))
  const text = (at: number, value: string) => [...value].forEach((char, i) => view.setUint8(at + i, char.charCodeAt(0)))
  text(0, 'RIFF')
  view.setUint32(4, 36 + samples * 2, true)
  text(8, 'WAVEfmt ')
  view.setUint32(16, 16, true)
  view.setUint16(20, 1, true)
  view.setUint16(22, 1, true)
  view.setUint32(24, 8000, true)
  view.setUint32(28, 16_000, true)
  view.setUint16(32, 2, true)
  view.setUint16(34, 16, true)
  text(36, 'data')
  view.setUint32(40, samples * 2, true)
  return new Blob([view], { type: 'audio/wav' })
}

export function blankImage(size = 64): Promise<Blob> {
  const canvas = document.createElement('canvas')
  canvas.width = canvas.height = size
  canvas.getContext('2d')?.fillRect(0, 0, size, size)
  return new Promise((resolve, reject) => canvas.toBlob((blob) => (blob === null ? reject(new Error('no image')) : resolve(blob)), 'image/png'))
}

export const paths: Record<ServiceType, string> = {
  chat: '/v1/chat/completions',
  embedding: '/v1/embeddings',
  rerank: '/v1/rerank',
  tts: '/v1/audio/speech',
  stt: '/v1/audio/transcriptions',
  imgGen: '/v1/images/generations',
  imgEdit: '/v1/images/edits',
}

export async function minimal(service: ServiceType, model: string): Promise<object | FormData> {
  switch (service) {
    case 'chat':
      return { model, messages: [{ role: 'user', content: 'ping' }], max_tokens: 16 }
    case 'embedding':
      return { model, input: 'ping' }
    case 'rerank':
      return { model, query: 'ping', documents: ['ping', 'pong'] }
    case 'tts':
      return { model, input: 'ping', voice: 'alloy' }
    case 'imgGen':
      return { model, prompt: 'ping', n: 1, response_format: 'b64_json' }
    case 'stt': {
      const form = new FormData()
      form.append('model', model)
      form.append('file', silence(), 'silence.wav')
      return form
    }
    case 'imgEdit': {
      const form = new FormData()
      form.append('model', model)
      form.append('prompt', 'ping')
      form.append('response_format', 'b64_json')
      form.append('image', await blankImage(), 'image.png')
      return form
    }
  }
}
