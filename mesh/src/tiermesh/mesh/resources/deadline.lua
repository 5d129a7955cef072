-- Gives every request a grpc-timeout that ends a little before Envoy's own timer, so that a service which runs
-- out of time can still say so. Runs after the transcoder: the route then is the final one, and Envoy's timer has
-- been set from what the caller sent.
local UNITS_MS = {H = 3600000, M = 60000, S = 1000, m = 1, u = 0.001, n = 0.000001}

function envoy_on_request(handle)
  local limits = handle:filterContext()
  if limits:get("max_ms") == nil then
    return
  end
  local headers = handle:headers()
  local budget = limits:get("default_ms")
  local amount, unit = string.match(headers:get("grpc-timeout") or "", "^(%d+)([HMSmun])$")
  if amount ~= nil and #amount <= 8 then
    budget = math.min(tonumber(amount) * UNITS_MS[unit], limits:get("max_ms"))
  end
  budget = budget - math.min(limits:get("offset_ms"), budget / 4)
  headers:replace("grpc-timeout", string.format("%du", math.min(99999999, math.max(1, math.floor(budget * 1000)))))
end
