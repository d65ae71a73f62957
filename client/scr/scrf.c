/* scrf.c: the calls of SCR for Fortran: lower case with one underscore behind, arguments by reference, and
 * the lengths of strings behind all others, as gfortran and most compilers have it. Context: inside
 * programs of any Fortran compiler; needs none itself. */
#include <stdlib.h>
#include <string.h>
#include "scr.h"

#define FORTRAN __attribute__((visibility("default"))) void
#define FAILURE 1

/* What stands in a string of Fortran before the blanks at its end. False: it is too long. */
static int taken(const char *from, size_t n, char to[SCR_MAX_FILENAME])
{
	while (n && from[n - 1] == ' ')
		n--;
	if (n >= SCR_MAX_FILENAME)
		return 0;
	memcpy(to, from, n);
	to[n] = 0;
	return 1;
}

/* Gives a string to Fortran, blanks behind it. Returns *error as it is, or a failure if the string is too
 * long. */
static int given(const char *from, char *to, size_t n, int error)
{
	size_t length = strlen(from);
	memset(to, ' ', n);
	memcpy(to, from, length < n ? length : n);
	return length > n ? FAILURE : error;
}

/* The prototypes say what the compiler of Fortran takes for granted. */
FORTRAN scr_init_(int *error);
FORTRAN scr_finalize_(int *error);
FORTRAN scr_should_exit_(int *flag, int *error);
FORTRAN scr_config_(const char *setting, char *value, int *error, size_t nsetting, size_t nvalue);
FORTRAN scr_have_restart_(int *flag, char *name, int *error, size_t n);
FORTRAN scr_start_restart_(char *name, int *error, size_t n);
FORTRAN scr_complete_restart_(const int *valid, int *error);
FORTRAN scr_need_checkpoint_(int *flag, int *error);
FORTRAN scr_start_checkpoint_(int *error);
FORTRAN scr_complete_checkpoint_(const int *valid, int *error);
FORTRAN scr_start_output_(const char *name, const int *flags, int *error, size_t n);
FORTRAN scr_complete_output_(const int *valid, int *error);
FORTRAN scr_route_file_(const char *name, char *file, int *error, size_t nname, size_t nfile);
FORTRAN scr_current_(const char *name, int *error, size_t n);
FORTRAN scr_drop_(const char *name, int *error, size_t n);
FORTRAN scr_delete_(const char *name, int *error, size_t n);

void scr_init_(int *error)
{
	*error = SCR_Init();
}

void scr_finalize_(int *error)
{
	*error = SCR_Finalize();
}

void scr_should_exit_(int *flag, int *error)
{
	*error = SCR_Should_exit(flag);
}

/* It fails where a setting that is asked for has no value. */
void scr_config_(const char *setting, char *value, int *error, size_t nsetting, size_t nvalue)
{
	char c[SCR_MAX_FILENAME];
	*error = FAILURE;
	if (!taken(setting, nsetting, c))
		return;
	char *found = (char *)SCR_Config(c);
	const char *last = strrchr(c, ' ');
	if (found)
		*error = given(found, value, nvalue, SCR_SUCCESS);
	else if (strchr(last ? last : c, '='))
		*error = given("", value, nvalue, SCR_SUCCESS);
	free(found);
}

void scr_have_restart_(int *flag, char *name, int *error, size_t n)
{
	char c[SCR_MAX_FILENAME] = "";
	*error = SCR_Have_restart(flag, c);
	if (*flag)
		*error = given(c, name, n, *error);
}

void scr_start_restart_(char *name, int *error, size_t n)
{
	char c[SCR_MAX_FILENAME] = "";
	*error = SCR_Start_restart(c);
	*error = given(c, name, n, *error);
}

void scr_complete_restart_(const int *valid, int *error)
{
	*error = SCR_Complete_restart(*valid);
}

void scr_need_checkpoint_(int *flag, int *error)
{
	*error = SCR_Need_checkpoint(flag);
}

void scr_start_checkpoint_(int *error)
{
	*error = SCR_Start_checkpoint();
}

void scr_complete_checkpoint_(const int *valid, int *error)
{
	*error = SCR_Complete_checkpoint(*valid);
}

void scr_start_output_(const char *name, const int *flags, int *error, size_t n)
{
	char c[SCR_MAX_FILENAME];
	*error = taken(name, n, c) ? SCR_Start_output(c, *flags) : FAILURE;
}

void scr_complete_output_(const int *valid, int *error)
{
	*error = SCR_Complete_output(*valid);
}

void scr_route_file_(const char *name, char *file, int *error, size_t nname, size_t nfile)
{
	char c[SCR_MAX_FILENAME], routed[SCR_MAX_FILENAME] = "";
	*error = taken(name, nname, c) ? SCR_Route_file(c, routed) : FAILURE;
	*error = given(routed, file, nfile, *error);
}

void scr_current_(const char *name, int *error, size_t n)
{
	char c[SCR_MAX_FILENAME];
	*error = taken(name, n, c) ? SCR_Current(c) : FAILURE;
}

void scr_drop_(const char *name, int *error, size_t n)
{
	char c[SCR_MAX_FILENAME];
	*error = taken(name, n, c) ? SCR_Drop(c) : FAILURE;
}

void scr_delete_(const char *name, int *error, size_t n)
{
	char c[SCR_MAX_FILENAME];
	*error = taken(name, n, c) ? SCR_Delete(c) : FAILURE;
}
