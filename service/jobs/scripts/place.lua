-- Where jobs stand in the queues of their lanes. ARGV: ids.
-- Answer: {place, expected start (ms), place, …} in the order of the ids; 0 where there is none.
local at, answer = now(), {}
for _, id in ipairs(ARGV) do
  local job = load(id)
  local place = job and job.state == 'queued' and place_of(job) or 0
  answer[#answer + 1] = place
  answer[#answer + 1] = place > 0 and start_of(job, place, at) or 0
end
return answer
