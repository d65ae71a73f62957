/* config.c: SCR_Config, and the settings that the agent is told. Context: see state.h; before SCR_Init, and
 * even before MPI_Init. The agent knows what is in force, from settings of the environment, of files and of
 * the program. Where there is none, settings that have been made here and the environment answer. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "state.h"

extern char **environ;

static struct setting *setting_of(const char *name, const char *value)
{
	for (size_t i = 0; i < scr.nsettings; i++)
		if (!strcmp(scr.settings[i].name, name) && (!value || !strcmp(scr.settings[i].value, value)))
			return &scr.settings[i];
	return NULL;
}

/* The others stay in their order: a later one holds. */
static void drop(struct setting *s)
{
	struct setting *end = scr.settings + scr.nsettings--;
	free(s->name), free(s->value), free(s->below);
	memmove(s, s + 1, (size_t)(end - s - 1) * sizeof *s);
}

void scr_settings_forget(void)
{
	while (scr.nsettings)
		drop(scr.settings);
	free(scr.settings);
	scr.settings = NULL;
}

static struct setting *add(const char *name, const char *value)
{
	struct setting *more = realloc(scr.settings, (scr.nsettings + 1) * sizeof *more);
	if (!more)
		return NULL;
	scr.settings = more, more += scr.nsettings;
	*more = (struct setting){strdup(name), strdup(value), strdup("")};
	if (!more->name || !more->value || !more->below) {
		free(more->name), free(more->value), free(more->below);
		return NULL;
	}
	scr.nsettings++;
	return more;
}

/* Finds NAME=value among "NAME=value NAME=value", and the length of the value. */
static const char *pair(const char *below, const char *name, size_t *length)
{
	size_t n = strlen(name);
	for (const char *at = below; *at; at += strcspn(at, " "), at += *at == ' ')
		if (!strncmp(at, name, n) && at[n] == '=') {
			*length = strcspn(at + n + 1, " ");
			return at + n + 1;
		}
	return NULL;
}

/* Sets what lies below a setting's value, in place of what was there under this name; an empty value takes
 * it back. */
static bool set_below(struct setting *s, const char *name, const char *value)
{
	size_t n = 0, head = strlen(s->below);
	const char *old = pair(s->below, name, &n), *tail = "";
	char *made = NULL;
	if (old) {
		head = (size_t)(old - s->below) - strlen(name) - 1;
		tail = old + n + (old[n] == ' ');
	}
	const char *gap = !old && head && *value ? " " : "", *behind = *tail && *value ? " " : "";
	int length = asprintf(&made, "%.*s%s%s%s%s%s%s", (int)head, s->below, gap, *value ? name : "",
			      *value ? "=" : "", value, behind, tail);
	if (length < 0)
		return false;
	if (length && made[length - 1] == ' ')
		made[length - 1] = 0;
	free(s->below);
	s->below = made;
	return true;
}

/* What a string for SCR_Config says: names and values by turns. The last name is asked for if it has no =
 * behind it. */
struct said {
	char *part[64]; /* name, value, name, value... */
	size_t n;       /* how many parts */
	bool asked;
	const char *wrong;
};

/* Takes a string apart, in place. Blanks may stand around = and between pairs; a value may contain =. */
static struct said take_apart(char *at)
{
	struct said s = {.asked = false};
	while (at += strspn(at, " "), *at && !s.wrong) {
		if (s.n + 2 > sizeof s.part / sizeof *s.part)
			s.wrong = "too many settings in one string";
		else if (s.asked)
			s.wrong = "a name without = in front of another";
		if (s.wrong)
			break;
		s.part[s.n++] = at;
		at += strcspn(at, " =");
		char *end = at;
		at += strspn(at, " ");
		s.asked = *at != '=';
		if (!s.asked) {
			at++;
			at += strspn(at, " ");
			s.part[s.n++] = at;
			at += strcspn(at, " ");
			if (*at)
				*at++ = 0;
		}
		*end = 0;
	}
	if (!s.wrong && (!s.n || !*s.part[0]))
		s.wrong = "no name";
	else if (!s.wrong && s.asked && s.n > 3)
		s.wrong = "a setting that is asked for behind one that is made";
	return s;
}

/* Makes or takes back a setting. A plain NAME=value replaces all that were made of the name. */
static bool set(const struct said *s)
{
	const char *name = s->part[0], *value = s->part[1];
	struct setting *at;
	if (s->n == 2) {
		while ((at = setting_of(name, NULL)))
			drop(at);
		return !*value || add(name, value);
	}
	at = setting_of(name, value);
	if (!at && !(at = add(name, value)))
		return false;
	for (size_t i = 2; i < s->n; i += 2)
		if (!set_below(at, s->part[i], s->part[i + 1]))
			return false;
	return true;
}

/* The value of a setting as it is known here. */
static char *known(const struct said *s)
{
	const char *name = s->part[0];
	const char *value = s->n == 1 ? getenv(name) : NULL;
	size_t n = 0;
	if (s->n == 1 && !value) {
		struct setting *at = setting_of(name, NULL);
		for (size_t i = 0; at && i < scr.nsettings; i++)
			if (&scr.settings[i] != at && !strcmp(scr.settings[i].name, name)) {
				scr_say("SCR_Config", "%s has several values, wanted one", name);
				return NULL;
			}
		value = at ? at->value : NULL;
	} else if (s->n == 3) {
		struct setting *at = setting_of(name, s->part[1]);
		value = at ? pair(at->below, s->part[2], &n) : NULL;
		return value ? strndup(value, n) : NULL;
	}
	return value ? strdup(value) : NULL;
}

void scr_settings_text(struct client_text *text, const char *also)
{
	char here[MAX_PATH];
	client_text_add(text, getcwd(here, sizeof here) ? here : "/");
	for (char **e = environ; e && *e; e++) {
		size_t n = strcspn(*e, "=");
		if (!strncmp(*e, "SCR_", 4) || (also && n == strlen(also) && !strncmp(*e, also, n)))
			client_text_addf(text, "E %s", *e);
	}
	for (size_t i = 0; i < scr.nsettings; i++) {
		struct setting *s = &scr.settings[i];
		client_text_addf(text, "C %s=%s%s%s", s->name, s->value, *s->below ? " " : "", s->below);
	}
}

bool scr_disabled(void)
{
	struct setting *s = setting_of("SCR_ENABLE", NULL);
	const char *value = getenv("SCR_ENABLE");
	value = value ? value : s ? s->value : NULL;
	return value && atoi(value) == 0;
}

/* The value that the agent knows. */
static char *asked(const struct said *s)
{
	const char *name = s->part[0];
	client_text_clear(&scr.text);
	scr_settings_text(&scr.text, s->n == 1 ? name : NULL);
	if (s->n == 1)
		client_text_add(&scr.text, name);
	else
		client_text_addf(&scr.text, "%s=%s %s", name, s->part[1], s->part[2]);
	scr.why[0] = 0;
	if (scr_ask((struct client_request){.type = CLIENT_REQ_CONFIG}, true) != CLIENT_DONE) {
		scr_say("SCR_Config", "%s", scr.why);
		return NULL;
	}
	const char *value = client_text_next(&scr.client.text, NULL);
	return value ? strdup(value) : NULL;
}

/* All ranks: the string of rank 0 in memory of its own; NULL: it has none, or *well is false. */
static char *shared(const char *mine, bool *well)
{
	int length = scr.me == 0 && mine ? (int)strlen(mine) : -1;
	*well = scr_share(&length, sizeof length);
	if (!*well || length < 0)
		return NULL;
	char *string = malloc((size_t)length + 1);
	if (string && scr.me == 0)
		memcpy(string, mine, (size_t)length + 1);
	*well = string && scr_share(string, (size_t)length + 1);
	if (!*well)
		free(string), string = NULL;
	return string;
}

/* Whether rank 0 has made the call with the same string. */
static bool same(const char *setting)
{
	bool well;
	char *first = shared(setting, &well);
	bool equal = well && !setting == !first && (!setting || !strcmp(setting, first));
	free(first);
	return equal;
}

const char *SCR_Config(const char *setting)
{
	if (scr.phase != BEFORE && !scr.on)
		return NULL;
	bool together = !scr_mpi() && mpi_runs(&scr.mpi) && scr_attach("SCR_Config"), well = true;
	if (together && !same(setting))
		return scr_wrong("SCR_Config", setting ? setting : "NULL", "rank 0's string"), NULL;
	if (!setting || !*setting)
		return NULL;
	char *copy = strdup(setting), *value = NULL, *first;
	struct said s = copy ? take_apart(copy) : (struct said){.wrong = "no memory"};
	if (s.wrong)
		scr_wrong("SCR_Config", s.wrong, "NAME=value, NAME= or NAME");
	else if (!s.asked && scr.phase != BEFORE)
		scr_wrong("SCR_Config", setting, "settings before SCR_Init alone");
	else if (!s.asked && !set(&s))
		scr_say("SCR_Config", "no memory for %s", setting);
	else if (s.asked && !client_has_agent(&scr.client))
		value = known(&s);
	else if (s.asked) {
		first = !together || scr.me == 0 ? asked(&s) : NULL;
		value = together ? shared(first, &well) : first;
		if (together)
			free(first);
	}
	free(copy);
	return value;
}

const char *SCR_Configf(const char *format, ...)
{
	char *setting = NULL;
	va_list args;
	va_start(args, format);
	int n = vasprintf(&setting, format, args);
	va_end(args);
	if (n < 0) {
		scr_say("SCR_Configf", "no memory");
		return NULL;
	}
	const char *value = SCR_Config(setting);
	free(setting);
	return value;
}
