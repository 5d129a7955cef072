-- Gives every request a grpc-timeout that ends a little after Envoy's own timer. The router keeps back twice as much, so
-- that it ends its answer before that timer. If it cannot, Envoy must be the one to cut the stream, which HTTP callers see:
-- a gRPC server that runs into its own timer ends the stream in good order, and nothing tells them that the end is missing.
-- Runs after the transcoder: the route then is the final one, and Envoy's timer has
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
  budget = budget + limits:get("offset_ms")
  headers:replace("grpc-timeout", string.format("%du", math.min(99999999, math.max(1, math.floor(budget * 1000)))))
end
