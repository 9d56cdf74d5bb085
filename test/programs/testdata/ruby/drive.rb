# What the drivers share: a web server with the application under test, real HTTP
# requests, and one line of output for each.

require 'net/http'
require 'rack'
require 'rack/handler/webrick'
require 'webrick'

$stdout.sync = true
Thread.abort_on_exception = true

# Reads the arguments, host:port and a database, and returns their URL.
def redis_url
  abort "usage: #{$PROGRAM_NAME} host:port database" unless ARGV.size == 2
  "redis://#{ARGV[0]}/#{ARGV[1]}"
end

def show(what, *answer)
  puts "#{what}: #{answer.join(', ')}"
end

# Runs the application on a free port while the block runs, which is given its URL.
def serve(app)
  server = WEBrick::HTTPServer.new(BindAddress: '127.0.0.1', Port: 0, MaxClients: 100, AccessLog: [],
                                   Logger: WEBrick::Log.new($stderr, WEBrick::Log::ERROR))
  server.mount('/', Rack::Handler::WEBrick, app)
  thread = Thread.new { server.start }
  yield "http://127.0.0.1:#{server[:Port]}"
ensure
  server.shutdown
  thread.join
end

# Asks count times, one after the other, and returns status, headers and text of each.
def answers(count, url, headers)
  Array.new(count) do
    response = Net::HTTP.get_response(URI(url), headers)
    about = response.each_header.select { |name, _| name.match?(/ratelimit|retry-after/) }
    [response.code, *about.map { |pair| pair.join('=') }, response.body.strip]
  end
end

# Asks count times, one after the other, and shows the answers.
def ask(what, count, url, headers)
  answers(count, url, headers).each { |answer| show what, *answer }
end

# Asks from 64 clients at once and returns how many got which status.
def codes_at_once(each, url, headers)
  codes = Array.new(64) do
    Thread.new { Array.new(each) { Net::HTTP.get_response(URI(url), headers).code } }
  end.flat_map(&:value)
  codes.tally.sort.map { |code, n| "#{n} of #{code}" }
end

# The windows of Rack::Attack begin with the clock. Waits for one with so many seconds
# left and has a group of requests made. If they do not fit into it, they are made once more,
# as another user. Returns what the group did.
def within_one(window, seconds)
  20.times do |n|
    left = window - Time.now.to_f % window
    sleep left if left < seconds
    began = Time.now.to_i / window
    result = yield "user#{n}"
    return result if Time.now.to_i / window == began
  end
  abort 'the machine is too busy'
end
