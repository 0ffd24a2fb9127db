// Makes the pictures of docs/console.md, from a demo gateway with some traffic.
//
//   PATCHBAY_BIN=../bin/patchbay node scripts/screenshots.mjs
import { Buffer } from 'node:buffer'
import { mkdir, writeFile } from 'node:fs/promises'
import { chromium } from 'playwright-core'
import { demoGateway, someCalls } from './gateway.mjs'

const { url, stop } = await demoGateway()
const into = new URL('../../docs/images/', import.meta.url).pathname
await mkdir(into, { recursive: true })
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'] })
const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, locale: 'en-US', colorScheme: 'light' })
const session = await page.context().newCDPSession(page)
const traffic = someCalls(url, 25)
const shoot = async (name, path, before = async () => undefined) => {
  await page.goto(url + path)
  await page.waitForSelector('.live.live')
  await before()
  await page.waitForTimeout(1500)
  // A third of the size of a PNG.
  const { data } = await session.send('Page.captureScreenshot', { format: 'webp', quality: 82 })
  await writeFile(`${into}${name}.webp`, Buffer.from(data, 'base64'))
}
await page.goto(url)
await traffic
await shoot('overview', '/')
await shoot('calls', '/calls', async () => {
  await page.locator('.cbody .crow').first().click()
  await page.waitForSelector('.drawer')
})
await shoot('playground', '/playground?model=demo-chat', async () => {
  await page.fill('.ta', 'What is a patch bay?')
  await page.keyboard.press('Control+Enter')
  await page.waitForSelector('.tape, .tick, .conv', { timeout: 8000 })
  await page.waitForTimeout(2500)
})
await browser.close()
stop()
