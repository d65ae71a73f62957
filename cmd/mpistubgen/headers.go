package main

import (
	"fmt"
	"hash/fnv"
	"io"
	"strings"

	"github.com/byssus-hpc/byssus/mpispec"
)

// objectPrefix is the C prefix of the neutral numbers of a kind, and what the names of that kind lose for it.
var objectPrefix = map[string]struct{ c, drop string }{
	"comm": {"NX_COMM_", "COMM_"}, "group": {"NX_GROUP_", "GROUP_"}, "request": {"NX_REQUEST_", "REQUEST_"},
	"message": {"NX_MESSAGE_", "MESSAGE_"}, "op": {"NX_OP_", "OP_"}, "info": {"NX_INFO_", "INFO_"},
	"errhandler": {"NX_ERRH_", "ERRHANDLER_"}, "keyval": {"NX_KEYVAL_", "KEYVAL_"}, "win": {"NX_WIN_", "WIN_"},
	"file": {"NX_FILE_", "FILE_"}, "session": {"NX_SESSION_", "SESSION_"}, "datatype": {"NX_TYPE_", "DATATYPE_"},
}

var objectKinds = []string{"comm", "group", "request", "message", "op", "errhandler", "info", "win", "file", "session", "keyval", "datatype"}

// neutralName is the C name of a predefined object's neutral number.
func neutralName(o mpispec.Object) string {
	p := objectPrefix[o.Kind]
	name := strings.TrimPrefix(o.Name, p.drop)
	if o.Kind == "keyval" && strings.HasPrefix(o.Name, "WIN_") {
		name = o.Name
	}
	if o.Kind == "errhandler" {
		name = strings.TrimPrefix(strings.TrimPrefix(name, "ERRORS_"), "ARE_")
	}
	return p.c + name
}

// addressTypes are the C types of the constants that are addresses, by group.
var addressTypes = map[string]string{
	"buffer": "void *", "status": "nx_status *", "errcodes": "int *", "argv": "char **", "weights": "int *",
}

func constantsHeader(m *model) []byte {
	w := file("constants.h: predefined objects and constants of the neutral language. Part of neutral.h.")
	w.f("#ifndef BYSSUS_GEN_CONSTANTS_H\n#define BYSSUS_GEN_CONSTANTS_H")
	for _, kind := range objectKinds {
		w.f("\nenum {")
		for _, o := range m.spec.ABI.Kind(kind) {
			w.f("\t%s = %d,", neutralName(o), o.Neutral)
		}
		w.f("\t%sN\n};", objectPrefix[kind].c)
	}
	w.f("")
	for _, c := range m.spec.ABI.Constants {
		if t := addressTypes[c.Group]; t != "" {
			w.f("#define NX_%s ((%s)%d)", c.Name, t, c.Neutral)
			continue
		}
		w.f("#define NX_%s %s", c.Name, parenthesised(c.Neutral))
	}
	w.f("#endif")
	return w.Bytes()
}

func parenthesised(n int64) string {
	if n < 0 {
		return fmt.Sprintf("(%d)", n)
	}
	return fmt.Sprint(n)
}

// fixedSlots are the crossings that belong to no MPI function.
var fixedSlots = []struct{ name, args, purpose string }{
	{"resume", "nx_cont *cont, nx_status *status", "resumes a call that returned BY_AGAIN"},
	{"refused", "uint32_t index, nx_t comm", "raises the error of a refused function (nx_refusal[index])"},
	{"raise", "nx_t comm, int error, const char *function", "raises an error that a face has found (comm or NX_COMM_WORLD) and returns it; function: its name without MPI_"},
	{"unfit", "const char *what, const char *why", "ends the job: what the face has found at MPI_Init, and why it cannot run"},
	{"route", "uint32_t comm_key, uint32_t type_key, nx_t comm, nx_t datatype", "makes a route (route.h) if these two may have one; always 0"},
}

// routedSlots are the crossings that a route leads to, which drivers fill; route.h has the types of their functions.
var routedSlots = []string{"send", "recv", "recv_status", "sendrecv", "isend", "irecv", "waitall"}

func routedName(short string) string { return slotName("routed_" + short) }

func slotName(short string) string { return "NX_SLOT_" + strings.ToUpper(short) }

func slotsHeader(m *model) []byte {
	w := file("slots.h: numbers of the crossings. Part of neutral.h.")
	w.f("#ifndef BYSSUS_SLOTS_H\n#define BYSSUS_SLOTS_H\nenum nx_slot {")
	for _, s := range fixedSlots {
		w.f("\t%s,", slotName(s.name))
	}
	for _, f := range m.wrapped {
		w.f("\t%s,", slotName(f.Short()))
	}
	for _, short := range routedSlots {
		w.f("\t%s,", routedName(short))
	}
	w.f("\tNX_SLOT_N\n};\n")
	w.f("/* Changes whenever a face and a middle generated from different descriptions would misunderstand each other: a face\n * lies in the image, the middle does not. */\n#define NX_INTERFACE %#xu\n#endif", interfaceHash(m))
	return w.Bytes()
}

// interfaceHash sums up everything that a saved face takes for granted.
func interfaceHash(m *model) uint32 {
	h := fnv.New32a()
	h.Write(constantsHeader(m))
	for _, s := range fixedSlots {
		fmt.Fprintln(h, s.name, s.args)
	}
	for _, f := range m.wrapped {
		fmt.Fprintln(h, f.Short(), list(midArgs(f)))
	}
	for _, f := range m.refused {
		io.WriteString(h, f.Name)
	}
	for _, short := range routedSlots {
		io.WriteString(h, short)
	}
	return h.Sum32()
}

func midHeader(m *model) []byte {
	w := file("mid.h: what the middle offers to the faces. Every function returns a neutral error code or BY_AGAIN. Part of table.h.")
	w.f("#ifndef BYSSUS_MID_H\n#define BYSSUS_MID_H\n")
	for _, s := range fixedSlots {
		w.f("/* %s */\nlong mid_%s(%s);", s.purpose, s.name, s.args)
	}
	chapter := ""
	for _, f := range m.wrapped {
		if f.Chapter != chapter {
			chapter = f.Chapter
			w.f("\n/* -- %s -- */", chapter)
		}
		w.f("long mid_%s(%s);", f.Short(), list(midArgs(f)))
	}
	w.f("#endif")
	return w.Bytes()
}

// driverObjects are the predefined objects that a driver offers one by one (the others in arrays).
var driverObjects = []string{"comm", "group", "request", "message", "info", "win", "file"}

func realHeader(m *model) []byte {
	w := file("real.h: what a driver offers to the middle: one real MPI library in neutral terms. Part of table.h.")
	w.WriteString(realHead)
	for _, kind := range driverObjects {
		for _, o := range m.spec.ABI.Kind(kind) {
			w.f("\trh_t %s;", strings.ToLower(o.Name))
		}
	}
	for _, f := range m.drivers {
		ret := "int"
		if f.Returns == "DOUBLE" {
			ret = "double"
		}
		w.f("\t%s (*%s)(%s);", ret, f.Short(), list(driverArgs(f)))
	}
	w.WriteString(realTail)
	return w.Bytes()
}

const realTail = `};

extern const struct nx_driver *drv;                /* the driver in use, after nx_driver_load (driver.h) */
#endif
`

const realHead = `#ifndef BYSSUS_REAL_H
#define BYSSUS_REAL_H

/* Functions return neutral error classes. Real handles are 0 for objects that the library lacks. Status pointers may
 * be NULL. Strings that a function writes need room for the neutral limit (NX_MAX_...). A
 * request that is done becomes request_null. */
struct nx_driver {
	const char *name;                              /* "mpich", "openmpi" */
	rh_t (*type_from_ptr)(const void *datatype);   /* what a user function of the real MPI got as its MPI_Datatype * */
	void (*hot)(void);                             /* puts hot.inc.c into the call slots: not with MPI_THREAD_MULTIPLE */
	rh_t type[NX_TYPE_N], op[NX_OP_N], errh[NX_ERRH_N];
`

// refusedHow are the C names of what a refused function does.
var refusedHow = map[mpispec.How]string{
	mpispec.Raises: "NX_REFUSED_RAISES", mpispec.Returns: "NX_REFUSED_RETURNS", mpispec.Ends: "NX_REFUSED_ENDS",
}

// typeName is what MPI_Type_get_name says: of a type with two names, the one that both libraries give.
func typeName(name string) string {
	switch name {
	case "LONG_LONG":
		return "LONG_LONG_INT"
	case "C_FLOAT_COMPLEX":
		return "C_COMPLEX"
	}
	return name
}

func namesSource(m *model) []byte {
	w := file("names.c: what is known of predefined datatypes, and the refused functions. Context: lower half.")
	w.f("#include \"objects.h\"\n\nconst struct nx_type_info nx_type_info[NX_TYPE_N] = {")
	for _, o := range m.spec.ABI.Kind("datatype") {
		w.f("\t[%s] = { \"MPI_%s\", %d, %d, NX_CLASS_%s },", neutralName(o), typeName(o.Name), o.Size, o.Extent, o.Class)
	}
	w.f("};\n\nconst struct nx_refusal nx_refusal[] = {")
	for _, f := range m.refused {
		r := m.spec.Reasons[f.Reason]
		w.f("\t{ %q, %q, %s },", f.Name, r.Text, refusedHow[r.How])
	}
	w.f("};")
	return w.Bytes()
}
