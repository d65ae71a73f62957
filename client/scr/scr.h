/* scr.h: the calls of the Scalable Checkpoint / Restart library (SCR), version 3.1, answered by Byssus.
 * Programs that are written for SCR are compiled with this header and linked with -lscr, for any MPI.
 * Context: any C or C++ program between MPI_Init and MPI_Finalize; all ranks make each call but
 * SCR_Route_file and SCR_Get_version, and in the same order. */
#ifndef BYSSUS_SCR_H
#define BYSSUS_SCR_H
#ifdef __cplusplus
extern "C" {
#endif

#define SCR_MAJOR_VERSION "3"
#define SCR_MINOR_VERSION "1"
#define SCR_PATCH_VERSION "0"
#define SCR_VERSION "v3.1.0"

/* What functions return if not noted otherwise; anything else is a failure, which has been explained on
 * standard error. */
#define SCR_SUCCESS (0)

/* Bytes of the buffers that names of files and datasets are written to, with the zero at their end. */
#define SCR_MAX_FILENAME 1024

/* What a dataset is for. */
#define SCR_FLAG_NONE (0 << 0)
#define SCR_FLAG_CHECKPOINT (1 << 0) /* the program can restart from it */
#define SCR_FLAG_OUTPUT (1 << 1)     /* a result, which is to come to the prefix directory */

/* Begin and end. */
int SCR_Init(void);
int SCR_Finalize(void);
char *SCR_Get_version(void);

/* Settings, before SCR_Init: "NAME=value" sets, "NAME=" takes back, "NAME" asks. What is returned is NULL,
 * or a value that the caller frees. "CKPT=1 TYPE=XOR SET_SIZE=4" and "CKPT=1 TYPE" do so below CKPT=1. */
const char *SCR_Config(const char *setting);
const char *SCR_Configf(const char *format, ...);

/* The path under which a file must be opened. Between a start and a complete it is where the file lies or
 * is to lie; elsewhere it is the name itself. `file` has SCR_MAX_FILENAME bytes. */
int SCR_Route_file(const char *name, char *file);

/* Restart. Names have SCR_MAX_FILENAME bytes, or are NULL. */
int SCR_Have_restart(int *flag, char *name);
int SCR_Start_restart(char *name);
int SCR_Complete_restart(int valid); /* fails if a rank has said that it is not valid */

/* Checkpoints and other output. */
int SCR_Need_checkpoint(int *flag);
int SCR_Start_output(const char *name, int flags);
int SCR_Complete_output(int valid); /* fails if it is not valid on all ranks */
int SCR_Start_checkpoint(void);
int SCR_Complete_checkpoint(int valid);

int SCR_Should_exit(int *flag);

/* Datasets by name: the program has restarted from this one by itself; forget it; remove it with its files.
 * */
int SCR_Current(const char *name);
int SCR_Drop(const char *name);
int SCR_Delete(const char *name);

#ifdef __cplusplus
}
#endif
#endif
