/* saved.h: the code of saved.S, and the stand-in vDSO, which vdso.c copies into the arena. Context: addresses
 * only. */
#ifndef BYSSUS_SAVED_H
#define BYSSUS_SAVED_H
extern const char by_vdso_blob[], by_vdso_blob_end[], by_pass_code[], by_pass_end[], by_entry_code[],
	by_entry_end[], by_vpark_code[], by_vpark_end[], by_pi_code[], by_pi_end[], by_noted_code[],
	by_noted_end[];
#endif
