import { useEffect, useRef, useState, type PointerEvent } from 'react'
import { useI18n } from '@/i18n'
import { SelectField, TextArea, TextField } from '@/ui/field'
import { Dialog } from '@/ui/overlay'
import { FileInput, useBlobUrl } from './audio'
import { gatewayKey, type Reply } from './call'
import type { TabProps } from './index'
import { CallError, Meta, RunButton, useCall } from './parts'
import { useKept } from '@/shell/draft'
import { given, useReplay, keptAs } from './replay'

interface ImageReply {
  data: { b64_json?: string; revised_prompt?: string }[]
}

const sizes = ['256x256', '512x512', '1024x1024']

// Images come inside the answer: the policy shows none of other addresses.
async function readImages(reply: Reply): Promise<{ images: Blob[]; prompt: string }> {
  const body = (await reply.response.json()) as ImageReply
  const images = body.data.flatMap((item) => {
    if (item.b64_json === undefined) return []
    const bytes = Uint8Array.from(atob(item.b64_json), (char) => char.charCodeAt(0))
    return [new Blob([bytes], { type: 'image/png' })]
  })
  return { images, prompt: body.data[0]?.revised_prompt ?? '' }
}

function Grid({ images, prompt }: { images: Blob[]; prompt: string }) {
  const { t } = useI18n()
  const [open, setOpen] = useState<Blob | null>(null)
  const url = useBlobUrl(open)
  return (
    <>
      <div className="imgs">
        {images.map((image, index) => (
          <Thumb key={index} image={image} alt={prompt} label={t('pg.open', { n: index + 1 })} onOpen={() => setOpen(image)} />
        ))}
      </div>
      {open !== null && url !== null && (
        <Dialog open onClose={() => setOpen(null)} label={prompt} className="wide">
          <div className="in">
            <img src={url} alt={prompt} className="w-full" />
            <p className="soft wrap">{prompt}</p>
            <div className="acts">
              <a className="btn" href={url} download="image.png">
                {t('pg.download')}
              </a>
              <button type="button" className="btn" onClick={() => setOpen(null)}>
                {t('common.close')}
              </button>
            </div>
          </div>
        </Dialog>
      )}
    </>
  )
}

function Thumb({ image, alt, label, onOpen }: { image: Blob; alt: string; label: string; onOpen(): void }) {
  const url = useBlobUrl(image)
  return (
    <button type="button" className="thumb" aria-label={label} onClick={onOpen}>
      {url !== null && <img src={url} alt={alt} />}
    </button>
  )
}

export function ImageGeneration({ model, panel }: TabProps) {
  const { t } = useI18n()
  const replay = useReplay('imgGen')
  const [prompt, setPrompt] = useKept(keptAs('image', replay), given(replay, 'prompt', 'A patch bay with petrol cables'))
  const [count, setCount] = useState(String(given(replay, 'n', 2)))
  const [size, setSize] = useState(given(replay, 'size', sizes[1]!))
  const call = useCall(readImages)
  const json = { model, prompt, n: Number(count), size, response_format: 'b64_json' }
  const run = () => void call.run({ path: '/v1/images/generations', json })
  return panel({
    request: { origin: location.origin, path: '/v1/images/generations', json, key: gatewayKey() !== '' },
    raw: call.result === null ? [] : [{ request: json, response: JSON.stringify({ images: call.result.images.length, revised_prompt: call.result.prompt }, null, 1) }],
    parameters: (
      <>
        <SelectField label={t('pg.count')} value={count} options={['1', '2', '3', '4'].map((value) => ({ value, label: value }))} onChange={setCount} />
        <SelectField label={t('pg.size')} value={size} options={sizes.map((value) => ({ value, label: value }))} onChange={setSize} />
      </>
    ),
    children: (
      <div className="sheet">
        <TextArea label={t('pg.prompt')} rows={3} value={prompt} onChange={setPrompt} />
        <RunButton busy={call.busy} disabled={prompt.trim() === '' || model === ''} label={t('pg.generate')} onRun={run} onStop={call.stop} />
        {call.error !== null && <CallError error={call.error} retry={run} />}
        {call.reply !== null && call.result !== null && (
          <>
            <Meta service="imgGen" model={model} reply={call.reply} />
            <Grid {...call.result} />
          </>
        )}
      </div>
    ),
  })
}

export function ImageEdit({ model, panel }: TabProps) {
  const { t } = useI18n()
  const [image, setImage] = useState<File | null>(null)
  const [prompt, setPrompt] = useKept(keptAs('edit', null), 'Make the cables red')
  const mask = useRef<HTMLCanvasElement>(null)
  const [painted, setPainted] = useState(false)
  const call = useCall(readImages)
  const run = async () => {
    if (image === null) return
    const form = new FormData()
    form.append('model', model)
    form.append('prompt', prompt)
    form.append('response_format', 'b64_json')
    form.append('image', image, image.name)
    if (painted && mask.current !== null) {
      const blob = await maskOf(mask.current)
      if (blob !== null) form.append('mask', blob, 'mask.png')
    }
    await call.run({ path: '/v1/images/edits', form })
  }
  return panel({
    request: {
      origin: location.origin,
      path: '/v1/images/edits',
      form: [
        { name: 'model', value: model },
        { name: 'prompt', value: prompt },
        { name: 'response_format', value: 'b64_json' },
        { name: 'image', file: image?.name ?? 'image.png' },
        ...(painted ? [{ name: 'mask', file: 'mask.png' }] : []),
      ],
      key: gatewayKey() !== '',
    },
    raw: call.result === null ? [] : [{ request: { model, prompt, image: image?.name }, response: JSON.stringify({ images: call.result.images.length }) }],
    children: (
      <div className="sheet">
        <FileInput label={t('pg.image')} accept="image/*" file={image} onChange={setImage} />
        {image !== null && <MaskPainter image={image} canvas={mask} painted={painted} onPaint={setPainted} />}
        <TextField label={t('pg.prompt')} value={prompt} onChange={setPrompt} />
        <RunButton busy={call.busy} disabled={image === null || prompt.trim() === '' || model === ''} label={t('pg.editImage')} onRun={() => void run()} onStop={call.stop} />
        {call.error !== null && <CallError error={call.error} retry={() => void run()} />}
        {call.reply !== null && call.result !== null && (
          <>
            <Meta service="imgEdit" model={model} reply={call.reply} />
            <Grid {...call.result} />
          </>
        )}
      </div>
    ),
  })
}

/** What is painted is transparent in the mask: there the image may change. */
function maskOf(painted: HTMLCanvasElement): Promise<Blob | null> {
  const mask = document.createElement('canvas')
  mask.width = painted.width
  mask.height = painted.height
  const context = mask.getContext('2d')
  if (context === null) return Promise.resolve(null)
  context.fillRect(0, 0, mask.width, mask.height)
  context.globalCompositeOperation = 'destination-out'
  context.drawImage(painted, 0, 0)
  return new Promise((resolve) => mask.toBlob(resolve, 'image/png'))
}

function MaskPainter({ image, canvas, painted, onPaint }: { image: File; canvas: React.RefObject<HTMLCanvasElement | null>; painted: boolean; onPaint(painted: boolean): void }) {
  const { t } = useI18n()
  const url = useBlobUrl(image)
  const [size, setSize] = useState({ width: 0, height: 0 })
  useEffect(() => onPaint(false), [image, onPaint])
  const paint = (event: PointerEvent<HTMLCanvasElement>) => {
    if (event.buttons === 0) return
    const target = event.currentTarget
    const box = target.getBoundingClientRect()
    const scale = target.width / box.width
    const context = target.getContext('2d')
    if (context === null) return
    context.fillStyle = '#000'
    context.beginPath()
    context.arc((event.clientX - box.left) * scale, (event.clientY - box.top) * scale, 14 * scale, 0, Math.PI * 2)
    context.fill()
    if (!painted) onPaint(true)
  }
  return (
    <div className="f">
      <div className="flab">
        {t('pg.mask')} <span className="opt">{t('pg.maskHint')}</span>
      </div>
      <div className="mask">
        {url !== null && <img src={url} alt="" onLoad={(event) => setSize({ width: event.currentTarget.naturalWidth, height: event.currentTarget.naturalHeight })} />}
        <canvas ref={canvas} width={size.width} height={size.height} onPointerDown={paint} onPointerMove={paint} />
      </div>
      {painted && (
        <div>
          <button
            type="button"
            className="btn sm"
            onClick={() => {
              canvas.current?.getContext('2d')?.clearRect(0, 0, size.width, size.height)
              onPaint(false)
            }}
          >
            {t('pg.clearMask')}
          </button>
        </div>
      )}
    </div>
  )
}
