-- Stores totals of writers in one place; see tally.Sheet.
--
-- KEYS: a hash.
-- ARGV: when it expires, in seconds; '1' if totals are ordered; '1' to return all; then for
-- each total a writer, its numbers, and the text that they replace whatever it says, or ''.
-- Numbers are compared as texts, because those of Lua are exact up to 2^53 only.
local function less(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end

if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then redis.call('DEL', KEYS[1]) end -- nobody else should write here
local changed = false
for i = 4, #ARGV, 3 do
  local writer, numbers = ARGV[i], ARGV[i + 1]
  local known = redis.call('HGET', KEYS[1], writer)
  local isWrong = known and known ~= '' and known == ARGV[i + 2]
  if isWrong then
    -- It is replaced.
  elseif known and ARGV[2] == '1' then
    if not less(string.match(known, '^%d+') or '', string.match(numbers, '^%d+')) then numbers = known end
  elseif known then
    local greater, before = {}, string.gmatch(known, '%d+')
    for given in string.gmatch(numbers, '%d+') do
      local had = before() or ''
      greater[#greater + 1] = less(given, had) and had or given
    end
    numbers = table.concat(greater, ' ')
  end
  if numbers ~= known then
    redis.call('HSET', KEYS[1], writer, numbers)
    changed = true
  end
end
if changed then redis.call('EXPIREAT', KEYS[1], ARGV[1]) end
if ARGV[3] == '1' then return redis.call('HGETALL', KEYS[1]) end
return {}
