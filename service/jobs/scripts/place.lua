-- Where a job stands in its lane's queue. ARGV: id.
-- Answer: {place, expected start (ms)}; 0 where there is none.
local job = load(ARGV[1])
if not job or job.state ~= 'queued' then
  return { 0, 0 }
end
local place = place_of(job)
return { place, start_of(job, place, now()) }
