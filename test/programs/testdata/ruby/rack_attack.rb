# Rack::Attack over the cache store of Rails, and over a Redis client:
#
#     ruby rack_attack.rb host:port database

require 'active_support'
require 'active_support/cache'
require 'active_support/cache/redis_cache_store'
require 'active_support/notifications'
require 'rack/attack'
require 'redis'
require_relative 'drive'

url = redis_url
class Rack::Attack
  throttle('slow', limit: 3, period: 60) { |request| request.get_header('HTTP_X_USER') if request.path == '/slow' }
  throttle('fast', limit: 2, period: 1) { |request| request.get_header('HTTP_X_USER') if request.path == '/fast' }
  throttle('many', limit: 100, period: 60) { |request| request.get_header('HTTP_X_USER') if request.path == '/many' }
  blocklist('fail2ban') do |request|
    request.path == '/login' && Fail2Ban.filter(request.get_header('HTTP_X_USER'), maxretry: 2, findtime: 60, bantime: 60) { request.params['wrong'] }
  end
  self.throttled_responder = lambda do |request|
    match = request.env['rack.attack.match_data']
    [429, { 'Content-Type' => 'text/plain', 'RateLimit-Limit' => match[:limit].to_s, 'Retry-After' => match[:period].to_s }, ["#{match[:count]} asked\n"]]
  end
end

app = Rack::Builder.new do
  use Rack::Attack
  run ->(_) { [200, { 'Content-Type' => 'text/plain' }, ["hello\n"]] }
end.to_app

stores = {
  'Rails' => ActiveSupport::Cache::RedisCacheStore.new(url: url, pool_size: 5, timeout: 10, error_handler: ->(exception:, **) { raise exception }),
  'Redis' => Redis.new(url: url, timeout: 10),
}
stores.each do |name, store|
  Rack::Attack.cache.store = store
  Rack::Attack.cache.prefix = "attack:#{name}"
  serve(app) do |at|
    minute = within_one(60, 15) do |user|
      [['3 a minute', answers(5, "#{at}/slow", 'x-user' => user)],
       ['3 a minute, another user', answers(1, "#{at}/slow", 'x-user' => "#{user} too")]]
    end
    minute.each { |what, all| all.each { |answer| show "#{name}, #{what}", *answer } }
    2.times do |time|
      second = within_one(1, 0.5) { |user| answers(3, "#{at}/fast", 'x-user' => "#{user} #{time}") }
      second.each { |answer| show "#{name}, 2 a second", *answer }
    end
    ask "#{name}, banned after 2", 3, "#{at}/login?wrong=1", 'x-user' => 'ann'
    ask "#{name}, banned", 1, "#{at}/login", 'x-user' => 'ann'
    # Over the store of Rails it reads first and then writes 1: only what follows is counted exactly.
    first, codes = within_one(60, 15) do |user|
      [answers(1, "#{at}/many", 'x-user' => user), codes_at_once(3, "#{at}/many", 'x-user' => user)]
    end
    show "#{name}, the first of 100 a minute", *first
    show "#{name}, 64 clients, 99 left", *codes
  end
  Rack::Attack.reset! if name == 'Rails' # it does not know how, over a client
end
