package main

import (
	"fmt"
	"strings"

	"github.com/byssus-hpc/byssus/mpispec"
)

// realExtras are functions of the real library that a driver needs for itself.
var realExtras = []string{"MPI_Error_class", "MPI_Comm_size", "MPI_Request_get_status", "MPI_Topo_test", "MPI_Cartdim_get",
	"MPI_Graph_neighbors_count"}

// driverSource writes a driver, for the middle of the lower half and for package mpilib: which of them, driver.h says, which each of
// the two has. The first has call slots besides, which DRIVER_HOT fills.
func driverSource(m *model, abi abiInfo) []byte {
	w := file(fmt.Sprintf("driver_%s.c: the real %s library in neutral terms.\n"+
		" * No mpi.h is included: functions are found by name, constants come from abi_%s.h. Context: as driver.h.", abi.name, abi.title, abi.name))
	w.f("#define DRIVER_%s 1\n#include \"driver.h\"\n", strings.ToUpper(abi.name))
	funcs := realFunctions(m)
	w.f("static struct real {")
	for _, f := range funcs {
		w.f("\t%s (*%s)(%s);", resultType(f), f.Short(), types(abiArgs(f)))
	}
	w.f("} real;\n\n#include \"driver_support.h\"")
	for _, f := range m.drivers {
		driverFunction(w, f, abi)
	}
	driverTable(w, m, abi)
	w.f("\n#ifdef DRIVER_HOT\n#include DRIVER_HOT\n#endif")
	driverLoad(w, m, abi, funcs)
	return w.Bytes()
}

func realFunctions(m *model) []*mpispec.Function {
	fs := append([]*mpispec.Function(nil), m.drivers...)
	for _, name := range realExtras {
		if f := m.spec.Function(name); f != nil && !f.Driver {
			fs = append(fs, f)
		}
	}
	return fs
}

func driverFunction(w *writer, f *mpispec.Function, abi abiInfo) {
	if f.Returns == "DOUBLE" {
		w.f("\nstatic double d_%s(void) { return real.%s(); }", f.Short(), f.Short())
		return
	}
	b := newBridge(f, side{driver: true, pointers: abi.pointers})
	if f.Name == "MPI_Abort" {
		b.before("let_launcher_read();")
	}
	w.f("\nstatic int d_%s(%s)\n{", f.Short(), list(driverArgs(f)))
	lines(w, b.pre)
	call := fmt.Sprintf("neutral(real.%s(%s))", f.Short(), strings.Join(b.args, ", "))
	if len(b.post)+len(b.end) == 0 {
		w.f("\treturn %s;\n}", call)
		return
	}
	w.f("\tint rc = %s;", call)
	lines(w, b.post)
	lines(w, b.end)
	w.f("\treturn rc;\n}")
}

func lines(w *writer, ls []string) {
	for _, l := range ls {
		w.f("\t%s", l)
	}
}

func driverTable(w *writer, m *model, abi abiInfo) {
	w.f("\nstatic struct nx_driver driver = {\n\t.name = %q,\n\t.type_from_ptr = type_from_ptr,", abi.name)
	for _, f := range m.drivers {
		w.f("\t.%s = d_%s,", f.Short(), f.Short())
	}
	w.f("};")
}

// driverField is the member of struct nx_driver that holds a predefined object.
func driverField(o mpispec.Object) string {
	switch o.Kind {
	case "datatype":
		return "type[" + neutralName(o) + "]"
	case "op":
		return "op[" + neutralName(o) + "]"
	case "errhandler":
		return "errh[" + neutralName(o) + "]"
	}
	return strings.ToLower(o.Name)
}

func driverLoad(w *writer, m *model, abi abiInfo, funcs []*mpispec.Function) {
	w.f("\nstatic const struct symbol functions[] = {")
	for _, f := range funcs {
		w.f("\t{ %q, offsetof(struct real, %s) },", "P"+f.Name, f.Short())
	}
	w.f("};\n")
	kinds := append([]string{"datatype", "op", "errhandler"}, driverObjects...)
	if abi.pointers {
		w.f("static const struct symbol objects[] = {")
	}
	objects := func(format string) {
		for _, k := range kinds {
			for _, o := range m.spec.ABI.Kind(k) {
				if v, ok := o.Value(abi.name); ok {
					w.f(format, v, driverField(o))
				}
			}
		}
	}
	if abi.pointers {
		objects("\t{ \"%[1]s\", offsetof(struct nx_driver, %[2]s) },")
		w.f("};\n")
	}
	w.f("const char *nx_driver_load_%s(void *libmpi, const struct nx_driver **found)\n{", abi.name)
	w.f("\tconst char *why = find_functions(libmpi, functions, sizeof functions / sizeof functions[0]);\n\tif (why) return why;")
	if abi.pointers {
		w.f("\tfind_objects(libmpi, objects, sizeof objects / sizeof objects[0], &driver);")
	} else {
		objects("\tdriver.%[2]s = RH((int)%[1]s);")
	}
	standIns(w, m, abi, kinds)
	w.f("\tfind_weights(libmpi);")
	w.f("#ifdef DRIVER_HOT\n\thot_load(libmpi);\n#endif")
	w.f("\t*found = &driver;\n\treturn NULL;\n}")
}

// hotSlots declares the slots' functions of hot functions, which hot.inc.c defines, and writes what they leave all that
// is not common to; entries.c has the slots' functions of the others.
func hotSlots(m *model) []byte {
	w := file("hot_slots.inc.c: the call slots that hot.inc.c fills. Part of it.")
	var hot []*mpispec.Function
	for _, f := range m.wrapped {
		if f.Hot {
			hot = append(hot, f)
		}
	}
	w.f("/* What hot.inc.c defines for them; with the same arguments, the middle's complete versions. */")
	for _, f := range hot {
		c := crossingOf(f)
		w.f("static long hot_%s(%s);", f.Short(), list(c.registers()))
		w.f("COLD static long cold_%s(%s) { return mid_%[1]s(%[3]s); }", f.Short(), list(c.registers()), strings.Join(unpacked(c), ", "))
	}
	for _, short := range routedSlots {
		w.f("static nx_routed_%s routed_%s;", strings.TrimSuffix(short, "_status"), short)
	}
	w.f("\nstatic void hot_slots(void)\n{")
	for k, short := range routedSlots {
		w.f("\tcore_set_short_call(%d, %s, (void *)routed_%s);", k, routedName(short), short)
	}
	for _, f := range hot {
		w.f("\tcore_set_call(%s, (void *)hot_%s);", slotName(f.Short()), f.Short())
	}
	w.f("}")
	return w.Bytes()
}

// standIns gives an object that the library lacks the handle of another one that does its work.
func standIns(w *writer, m *model, abi abiInfo, kinds []string) {
	fields := map[string]string{}
	for _, k := range kinds {
		for _, o := range m.spec.ABI.Kind(k) {
			fields[o.Name] = driverField(o)
		}
	}
	for _, k := range kinds {
		for _, o := range m.spec.ABI.Kind(k) {
			if name := o.StandIn(abi.name); name != "" {
				w.f("\tdriver.%s = driver.%s;", driverField(o), fields[name])
			}
		}
	}
}
