/*
 * Sends commands through hiredis and prints the replies with their types:
 *
 *     send host port <commands
 *
 * Each line of the input is one word of a command, an empty line ends the command.
 * In a word \n is a line feed, \e the empty word, \\ a backslash.
 *
 *     cc -Wall -o send send.c -lhiredis
 */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { most_words = 64 };

static void fail(const char *what)
{
	fprintf(stderr, "send: %s\n", what);
	exit(1);
}

static void print_reply(const redisReply *r, const char *end)
{
	switch (r->type) {
	case REDIS_REPLY_STATUS:
		printf("status %s", r->str);
		break;
	case REDIS_REPLY_ERROR:
		printf("error %s", r->str);
		break;
	case REDIS_REPLY_INTEGER:
		printf("integer %lld", r->integer);
		break;
	case REDIS_REPLY_NIL:
		printf("nil");
		break;
	case REDIS_REPLY_STRING:
		printf("string ");
		fwrite(r->str, 1, r->len, stdout);
		break;
	case REDIS_REPLY_ARRAY:
		printf("array [");
		for (size_t i = 0; i < r->elements; i++)
			print_reply(r->element[i], i + 1 < r->elements ? ", " : "");
		printf("]");
		break;
	default:
		printf("type %d", r->type);
	}
	printf("%s", end);
}

/* Takes the escapes out of a word, in place, and returns its length. */
static size_t unescape(char *word)
{
	char *to = word;
	for (const char *from = word; *from; from++) {
		if (*from != '\\' || !from[1])
			*to++ = *from;
		else if (*++from == 'n')
			*to++ = '\n';
		else if (*from != 'e')
			*to++ = *from;
	}
	*to = 0;
	return to - word;
}

static void send_command(redisContext *c, int argc, const char **argv, const size_t *lengths)
{
	redisReply *reply = redisCommandArgv(c, argc, argv, lengths);
	if (!reply)
		fail(c->errstr);
	print_reply(reply, "\n");
	freeReplyObject(reply);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		fail("usage: send host port <commands");
	redisContext *c = redisConnectWithTimeout(argv[1], atoi(argv[2]), (struct timeval){ .tv_sec = 5 });
	if (!c || c->err)
		fail(c ? c->errstr : "no memory");
	if (redisSetTimeout(c, (struct timeval){ .tv_sec = 5 }) != REDIS_OK)
		fail("no timeout");

	const char *words[most_words];
	size_t lengths[most_words];
	int n = 0;
	char *line = NULL;
	size_t size = 0;
	ssize_t length;
	while ((length = getline(&line, &size, stdin)) >= 0) {
		if (length && line[length - 1] == '\n')
			line[--length] = 0;
		if (length) {
			if (n == most_words)
				fail("too many words");
			char *word = strdup(line);
			if (!word)
				fail("no memory");
			lengths[n] = unescape(word);
			words[n++] = word;
		} else if (n) {
			send_command(c, n, words, lengths);
			while (n)
				free((char *)words[--n]);
		}
	}
	if (n)
		fail("the last command has no empty line behind it");
	free(line);
	redisFree(c);
	return 0;
}
