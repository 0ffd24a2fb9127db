-- Notes what an owner keeps, and finds what has to give way so that it stays within its
-- share. KEYS: the ids by the time of their last use, and their sizes with the sum in the
-- field ''. ARGV: now and the time for which an answer is kept, in milliseconds; the id,
-- empty if no answer is new or gone; its size, or -1 if it is kept no more; the most bytes
-- and answers. Returns the bytes that the owner has then, and the ids of the answers that
-- give way.
local now, ttl, id, size = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local mostBytes, mostAnswers = tonumber(ARGV[5]), tonumber(ARGV[6])

local function forget(id)
  redis.call('ZREM', KEYS[1], id)
  local known = redis.call('HGET', KEYS[2], id)
  if known then
    redis.call('HDEL', KEYS[2], id)
    redis.call('HINCRBY', KEYS[2], '', -tonumber(known))
  end
end

local function sum()
  return tonumber(redis.call('HGET', KEYS[2], '') or '0')
end

for _, expired in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - ttl)) do
  forget(expired)
end
if id ~= '' then
  forget(id)
end
if size >= 0 then
  redis.call('ZADD', KEYS[1], now, id)
  redis.call('HSET', KEYS[2], id, size)
  redis.call('HINCRBY', KEYS[2], '', size)
end
local gone = {}
while redis.call('ZCARD', KEYS[1]) > mostAnswers or sum() > mostBytes do
  local oldest = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
  if not oldest then
    redis.call('DEL', KEYS[2]) -- a sum of nothing
    break
  end
  forget(oldest)
  gone[#gone + 1] = oldest
end
redis.call('PEXPIRE', KEYS[1], ttl)
redis.call('PEXPIRE', KEYS[2], ttl)
table.insert(gone, 1, tostring(sum()))
return gone
