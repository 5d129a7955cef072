"""What scripts of several adapters do to a run."""

from __future__ import annotations

AFTER_MS = 5_000
"""How long events stay once the run has ended."""
HOLDS = """
local function holds(key, token)
  local value = redis.call('get', key)
  return value and string.sub(value, 1, #token + 1) == token .. ' ' and value
end
"""
RELEASE = f"""
local function release(claim, events, token)
  if not holds(claim, token) then return 0 end
  redis.call('del', claim)
  if redis.call('exists', events) == 1 then
    redis.call('xadd', events, '*', 'n', -1, 'e', '')
    redis.call('pexpire', events, {AFTER_MS})
  end
  return 1
end
"""
