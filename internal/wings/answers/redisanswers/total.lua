-- Notes how many bytes an owner keeps, beside what all others do. Owners that belong
-- together, the keys of a tenant, are a group. KEYS: the groups by their bytes; the owners
-- with their bytes, and the sum of all in the field ''; the owners by the time of their last
-- use; the group of each owner; the owners of the owner's group by their bytes. ARGV: now and
-- the time for which an answer is kept, in milliseconds; the owner, its group and its bytes.
-- Returns the sum, the group that has the most, and an owner with its group of whom nothing
-- can be left, or who was in another group: it has to be noted there with 0 bytes.
local groups, owners, used, of, ownersOfGroup = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local now, ttl, owner, group, bytes = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4], tonumber(ARGV[5])

local stale = redis.call('ZRANGEBYSCORE', used, '-inf', now - ttl, 'LIMIT', 0, 1)[1] or ''
if stale == owner then
  stale = ''
end
local staleGroup = stale ~= '' and redis.call('HGET', of, stale) or ''
local before = redis.call('HGET', of, owner)
if before and before ~= group then
  stale, staleGroup = owner, before
else
  local more = bytes - tonumber(redis.call('HGET', owners, owner) or '0')
  redis.call('HINCRBY', owners, '', more)
  redis.call('ZINCRBY', groups, more, group)
  if bytes > 0 then
    redis.call('HSET', owners, owner, bytes)
    redis.call('HSET', of, owner, group)
    redis.call('ZADD', used, now, owner)
    redis.call('ZADD', ownersOfGroup, bytes, owner)
  else
    redis.call('HDEL', owners, owner)
    redis.call('HDEL', of, owner)
    redis.call('ZREM', used, owner)
    redis.call('ZREM', ownersOfGroup, owner)
  end
  if tonumber(redis.call('ZSCORE', groups, group)) <= 0 then
    redis.call('ZREM', groups, group)
  end
end
for _, key in ipairs(KEYS) do
  redis.call('PEXPIRE', key, ttl)
end
local most = redis.call('ZREVRANGE', groups, 0, 0)[1] or ''
return {redis.call('HGET', owners, '') or '0', most, stale, staleGroup}
