-- One exchange of a gateway with the store; see tally.Store.
--
-- KEYS: the mark, the members, the count of changes, and the limit, if there is an ask.
-- ARGV: the time in microseconds or '' for the time of the server, member, known epoch,
-- epoch to begin if one must be, members that the gateway knows; then the ask.
local SILENT, FORGET, SETTLE, PROBATION, LEASE, KEEP = SILENT_US, FORGET_US, SETTLE_US, PROBATION_US, LEASE_US, 604800000

-- What is not as this script writes it counts as 0, or as not there: nobody else should
-- write here, and one key must not stop what others hold.
local function number(text)
  local n = tonumber(text)
  if not n or n ~= n or n == math.huge or n == -math.huge then return 0 end
  return n
end
local function hash(key)
  local all = redis.pcall('HGETALL', key)
  if not all.err then return all end
  redis.call('DEL', key)
  return {}
end

local time = redis.call('TIME')
local now = number(time[1]) * 1000000 + number(time[2])
if ARGV[1] ~= '' then now = number(ARGV[1]) end
local member, known, fresh, expected = ARGV[2], ARGV[3], ARGV[4], number(ARGV[5])

-- Who is there.
local count, silent = 0, 0
local own, ownSilent = 0, 0
local present = {}
local seen = hash(KEYS[2])
for i = 1, #seen, 2 do
  local age = now - number(seen[i + 1])
  if math.abs(age) > FORGET then
    redis.call('HDEL', KEYS[2], seen[i])
  else
    if seen[i] == member then
      own = 1
      if age > SILENT then ownSilent = 1 end
    else
      present[seen[i]] = true
      count = count + 1
      if age > SILENT then silent = silent + 1 end
    end
  end
end
redis.call('HSET', KEYS[2], member, string.format('%.0f', now))
redis.call('PEXPIRE', KEYS[2], KEEP)

-- The epoch: how long the store has had its data.
local mark = redis.pcall('HMGET', KEYS[1], 'id', 'since', 'new', 'seen', 'to', 'expected', 'shared')
if mark.err then
  redis.call('DEL', KEYS[1])
  mark = {}
end
local id, since, isNew, last = mark[1], number(mark[2]), mark[3] == '1', number(mark[4])
local to, wanted, shared = number(mark[5]), number(mark[6]), number(mark[7])
if not id or (known ~= '' and known ~= id and isNew) then
  isNew = not id and known == ''
  id, since, last, to, wanted, shared = fresh, now, now, 0, 0, 0
  if not isNew then wanted = expected end
  redis.call('DEL', KEYS[1])
end

-- Which part of the limits is for those gateways that are not cut off.
local function divide(all, gone)
  if wanted > all and now - math.max(since, to) < SETTLE then
    gone, all = gone + wanted - all, wanted
  end
  return all, gone, all > 0 and (all - gone) / all or 1
end
-- The sum of all time, each with the part that was for those gateways then, by which
-- limits grow. While no gateway was heard of, each took its share by itself; gateways
-- that left in order are not among the members.
local before, share = 1, 1
if #seen > 0 and now - last > SILENT then
  to, wanted = now, expected
else
  before = select(3, divide(count + own, silent + ownSilent))
  shared = shared + before * math.max(0, now - last)
end
count, silent, share = divide(count + 1, silent)
redis.call('HSET', KEYS[1], 'id', id, 'since', string.format('%.0f', since), 'new', isNew and '1' or '0',
  'seen', string.format('%.0f', math.max(now, last)), 'to', string.format('%.0f', to), 'expected', wanted,
  'shared', string.format('%.17g', shared))
redis.call('PEXPIRE', KEYS[1], KEEP)
local changes = redis.pcall('GET', KEYS[3])
if changes and (type(changes) == 'table' or #changes > 15 or not string.find(changes, '^%d+$')) then
  redis.call('DEL', KEYS[3])
  changes = '0'
end
changes = number(changes)

if #KEYS < 4 then return {id, count, silent, changes} end

-- The ask.
local capacity, rate, window, warmUp = number(ARGV[6]), number(ARGV[7]), number(ARGV[8]), number(ARGV[9])
local epoch, granted, serial = ARGV[10], number(ARGV[11]), number(ARGV[12])
local returned, spent, used, outstanding, want = number(ARGV[13]), number(ARGV[14]), number(ARGV[15]), number(ARGV[16]), number(ARGV[17])
local need = number(ARGV[19])

local stored = {}
local flat = hash(KEYS[4])
for i = 1, #flat, 2 do stored[flat[i]] = flat[i + 1] end
local begins = stored.epoch ~= id
if begins then
  redis.call('DEL', KEYS[4])
  stored = {born = string.format('%.0f', now)}
end
local born = number(stored.born)
local function warmth(at)
  if warmUp <= 0 then return 1 end
  return (1 + 2 * math.max(0, math.min(1, (at - born) / warmUp))) / 3
end
local full = math.max(1, capacity * warmth(now) * share)

-- The marks of a sliding window: how many permits were spent in each grain of time.
local grain = math.max(1, math.floor(window / 64))
local marks, order = {}, {}
local function spend(at, permits)
  if permits <= 0 then return end
  local key = math.floor(at / grain)
  if not marks[key] then table.insert(order, key) end
  marks[key] = (marks[key] or 0) + permits
end
for key, permits in string.gmatch(stored.marks or '', '(%d+):(%d+)') do
  local at = number(key)
  if (at + 1) * grain + window > now and at * grain <= now + window then spend(at * grain, number(permits)) end
end

local level, at, grown = number(stored.level), number(stored.at), number(stored.shared)
if begins then
  level, at, grown = capacity * warmth(now), now, shared
  if not isNew then level = math.min(level, rate * warmth(now) * share * (now - since) / 1000000) end
end

-- What this gateway had, as the store remembers it and as the gateway does.
local function lease(text)
  local total, open, ends, turn = string.match(text or '', '^(%S+) (%S+) (%S+) (%S+)$')
  return number(total), number(open), number(ends), number(turn)
end
local mine = stored['m:' .. member]
local _, mineOpen, mineEnds = lease(mine)
if mineEnds <= now then mineOpen = 0 end
if epoch ~= id then
  -- A gateway that was killed may have spent what it had.
  local _, had = lease(mine)
  granted, returned = 0, 0
  spend(now, used + had)
else
  local total, _, _, turn = lease(mine)
  if mine and serial <= turn then return {id, count, silent, changes, -1, '0', '0', '0', 0, 0} end
  if mine and granted > total then
    level = level - (granted - total)
    spend(now, granted - total)
  end
  granted = math.max(granted, total)
  local unknown = spent
  for ago, permits in string.gmatch(ARGV[18], '(%d+):(%d+)') do
    spend(now - number(ago), number(permits))
    unknown = unknown - number(permits)
  end
  spend(now, unknown)
  -- What was not used after all is taken from the oldest, so that nothing is forgotten
  -- too early.
  table.sort(order)
  for _, key in ipairs(order) do
    if spent >= 0 then break end
    local back = math.min(-spent, marks[key])
    marks[key], spent = marks[key] - back, spent + back
  end
end

-- What the other gateways have.
local open = 0
for field, text in pairs(stored) do
  local name = string.match(field, '^m:(.*)$')
  if name and name ~= member then
    local total, theirs, ends, turn = lease(text)
    if theirs > 0 and ends <= now then
      spend(ends, theirs)
      theirs = 0
      redis.call('HSET', KEYS[4], field, string.format('%.0f 0 0 %.0f', total, turn))
    end
    if theirs == 0 and not present[name] then redis.call('HDEL', KEYS[4], field) end
    open = open + theirs
  end
end

-- How much there is.
local grant, left, retry = 0, 0, 0
if window > 0 then
  local sum, oldest = 0, nil
  for _, key in ipairs(order) do
    sum = sum + marks[key]
    if marks[key] > 0 and (not oldest or key < oldest) then oldest = key end
  end
  left = math.floor(full) - sum - open - outstanding
  if not isNew and now - since < SETTLE then left = math.min(left, 0) end
  retry = oldest and ((oldest + 1) * grain + window - now) or 20000
else
  -- What this gateway spent makes room from now on only: when it was spent is not known.
  level = level + rate * (warmth(at) + warmth(now)) / 2 * (shared - grown) / 1000000
  -- A gateway that comes back had its own part of the capacity until now.
  local most = math.max(1, capacity * warmth(now) * math.min(before, share))
  level = math.min(level, math.max(0, most - open - mineOpen)) + returned
  level = math.min(level, math.max(0, full - open - outstanding))
  left = level
end
local most, available, isProbation = want, left, isNew and now - since < PROBATION
if isProbation then
  -- Of the half that is given out, half is for requests that wait, not for those to come.
  available = left - math.floor(full / 2)
  most = math.min(want, need + math.max(0, math.floor((available - full / 4) / 2)))
end
grant = math.max(0, math.min(most, math.floor(available + 0.000001)))
left = left - grant
if window <= 0 then
  level = level - grant
  retry = math.max(retry, math.max(0, 1 - level) * 1000000 / math.max(0.001, rate * warmth(now) * share))
end
if isProbation then retry = grant < need and since + PROBATION - now or 0 end

local text = {}
for _, key in ipairs(order) do
  if marks[key] > 0 then text[#text + 1] = string.format('%.0f:%.0f', key, marks[key]) end
end
redis.call('HSET', KEYS[4], 'epoch', id, 'born', string.format('%.0f', born), 'level', string.format('%.9f', level),
  'at', string.format('%.0f', now), 'shared', string.format('%.17g', shared), 'marks', table.concat(text, ','),
  'm:' .. member, string.format('%.0f %.0f %.0f %.0f', granted + grant, outstanding + grant, now + LEASE, serial))
redis.call('PEXPIRE', KEYS[4], KEEP)
return {id, count, silent, changes, grant, string.format('%.6f', left), string.format('%.6f', capacity * warmth(now)),
  string.format('%.6f', rate * warmth(now)), math.floor(retry), granted + grant}
