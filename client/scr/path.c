/* path.c: paths by their letters, directories, rows of strings. Context: see state.h; nothing here knows
 * MPI or the agent. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "state.h"

/* Appends the parts of a path to one that is absolute and without . and .. */
static bool append(char path[MAX_PATH], const char *name)
{
	size_t at = strlen(path);
	while (*name) {
		size_t n = strcspn(name, "/");
		if (n == 2 && !strncmp(name, "..", 2)) {
			while (at && path[at - 1] != '/')
				at--;
			at -= at > 0;
		} else if (n && !(n == 1 && *name == '.')) {
			if (at + n + 2 > MAX_PATH)
				return false;
			path[at++] = '/';
			memcpy(path + at, name, n);
			at += n;
		}
		path[at] = 0;
		name += n + (name[n] == '/');
	}
	return true;
}

bool scr_absolute(const char *name, char path[MAX_PATH])
{
	char here[MAX_PATH];
	path[0] = 0;
	if (*name != '/' && (!getcwd(here, sizeof here) || !append(path, here)))
		return false;
	if (!append(path, name))
		return false;
	if (!*path)
		memcpy(path, "/", 2);
	return true;
}

const char *scr_below(const char *directory, const char *path)
{
	size_t n = strlen(directory);
	if (n == 1)
		return path[0] == '/' && path[1] ? path + 1 : NULL; /* the root */
	return !strncmp(path, directory, n) && path[n] == '/' && path[n + 1] ? path + n + 1 : NULL;
}

/* Makes a directory, and those above it that are missing. The path is written to, and is as it was
 * afterwards. */
static bool make(char *path, unsigned mode)
{
	struct stat st;
	if (!mkdir(path, mode))
		return true;
	if (errno == EEXIST)
		return !stat(path, &st) && (S_ISDIR(st.st_mode) || (errno = ENOTDIR, false));
	char *slash = strrchr(path, '/');
	if (errno != ENOENT || !slash || slash == path)
		return false;
	*slash = 0;
	bool made = make(path, mode);
	*slash = '/';
	return made && (!mkdir(path, mode) || errno == EEXIST);
}

bool scr_make_directories(const char *path, unsigned mode)
{
	char directory[MAX_PATH];
	const char *slash = strrchr(path, '/');
	size_t n = slash ? (size_t)(slash - path) : 0;
	if (!n || (!strncmp(scr.made, path, n) && !scr.made[n]))
		return true;
	memcpy(directory, path, n), directory[n] = 0;
	if (!make(directory, mode))
		return false;
	memcpy(scr.made, directory, n + 1);
	return true;
}

bool scr_strings_add(struct strings *s, const char *string)
{
	if (s->n == s->room) {
		size_t room = s->room ? 2 * s->room : 16;
		char **at = realloc(s->at, room * sizeof *at);
		if (!at)
			return false;
		s->at = at, s->room = room;
	}
	s->at[s->n] = strdup(string);
	return s->at[s->n] && ++s->n;
}

void scr_strings_clear(struct strings *s)
{
	while (s->n)
		free(s->at[--s->n]);
}
