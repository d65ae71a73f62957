package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/byssus-hpc/byssus/mpispec"
)

// The layer of Fortran above the C functions of a face, for an ABI whose own library of that cannot run there: each entry point
// calls the C function, with arguments translated by their forms.

// fortranByHand are those that fortran_openmpi.inc.c has.
var fortranByHand = map[string]bool{
	"mpi_init": true, "mpi_init_thread": true, "mpi_pcontrol": true, "mpi_wtime": true, "mpi_wtick": true, "mpi_aint_add": true, "mpi_aint_diff": true,
	"mpi_alloc_mem": true, "mpi_alloc_mem_cptr": true, "mpi_free_mem": true, "mpi_buffer_attach": true, "mpi_buffer_detach": true,
	"mpi_op_create": true, "mpi_comm_create_errhandler": true, "mpi_errhandler_create": true, "mpi_comm_create_keyval": true,
	"mpi_type_create_keyval": true, "mpi_keyval_create": true, "mpi_comm_get_attr": true, "mpi_comm_set_attr": true, "mpi_type_get_attr": true,
	"mpi_type_set_attr": true, "mpi_attr_get": true, "mpi_attr_put": true, "mpi_f_sync_reg": true,
}

// fortranLayer writes an entry point for each name that the ABI's own library has.
func fortranLayer(w *writer, m *model, abi abiInfo) {
	refused := map[string]int{}
	for i, f := range m.refused {
		refused[f.Name] = i
	}
	w.f("\n/* -- the Fortran interface -- */\n#include \"fortran_%s.inc.c\"", abi.name)
	for _, e := range m.spec.ABI.Fortran {
		if len(e.Forms[abi.name]) == 0 || fortranByHand[e.Name] {
			continue
		}
		f := m.spec.OfFortran(e.Name)
		if f.Action == mpispec.Refuse {
			fortranRefused(w, e.Name, f, refused[f.Name])
		} else {
			fortranFunction(w, f)
		}
	}
}

// fortranRefused answers with an error, where that is wanted, in the place after all arguments.
func fortranRefused(w *writer, name string, f *mpispec.Function, index int) {
	args, comm := "", "NX_COMM_NULL"
	for i, p := range f.FortranArguments() {
		if p.Kind == "COMM" && p.Dir == mpispec.In && comm == "NX_COMM_NULL" {
			args += fmt.Sprintf("MPI_Fint *a%d, ", i)
			comm = fmt.Sprintf("comm_of_fint(*a%d)", i)
			continue
		}
		args += fmt.Sprintf("UNUSED void *a%d, ", i)
	}
	w.f("F_ENTRY(%s, void, (%sMPI_Fint *ierror))\n{\n\tF_RESULT(face_refused(%d, %s));\n}", fortranName(name), args, index, comm)
}

// fortranName is what all forms of a name have in common: mpi_send is send, mpix_bcast_init x_bcast_init.
func fortranName(name string) string {
	if rest, ok := strings.CutPrefix(name, "mpix_"); ok {
		return "mpix_, " + rest
	}
	return "mpi_, " + strings.TrimPrefix(name, "mpi_")
}

// fortranCall is a call of a C function as it is put together.
type fortranCall struct {
	f                         *mpispec.Function
	args, call, before, after []string
	lengths                   []string
}

func fortranFunction(w *writer, f *mpispec.Function) {
	c := &fortranCall{f: f}
	for _, p := range f.FortranArguments() {
		c.argument(p)
	}
	args := append(append(c.args, "MPI_Fint *ierror"), c.lengths...)
	w.f("F_ENTRY(%s, void, (%s))\n{", fortranName(strings.ToLower(f.Name)), strings.Join(args, ", "))
	lines(w, c.before)
	call := strong(f)
	if f.Alias != "" {
		call = "P" + f.Alias
	}
	w.f("\tint rc = %s(%s);", call, strings.Join(c.call, ", "))
	lines(w, c.after)
	w.f("\tF_RESULT(rc);\n}")
}

func (c *fortranCall) argument(p mpispec.Param) {
	name := p.Name
	value := !p.Array() && (p.Dir == mpispec.In || p.Dir == mpispec.Ref)
	pass := func(ctype, byValue, byAddress string) {
		c.args = append(c.args, ctype+" *"+name)
		if value {
			c.call = append(c.call, byValue)
		} else {
			c.call = append(c.call, byAddress)
		}
	}
	switch c.f.Form(p) {
	case mpispec.Same:
		pass("MPI_Fint", "*"+name, name)
	case mpispec.Index:
		pass("MPI_Fint", "*"+name, name)
		c.countFromOne(p)
	case mpispec.Logical:
		pass("MPI_Fint", "*"+name+" != 0", name)
	case mpispec.Address:
		pass("nx_aint", "*"+name, name)
	case mpispec.Choice:
		pass("char", "f_buffer("+name+")", "f_buffer("+name+")")
	case mpispec.Status:
		pass("MPI_Fint", "f_status("+name+")", "f_status("+name+")")
	case mpispec.Weights:
		pass("MPI_Fint", "f_weights("+name+")", "f_weights("+name+")")
	case mpispec.Default:
		c.shorter(p, value)
	case mpispec.Handle:
		c.handle(p, value)
	case mpispec.Text:
		c.text(p)
	default:
		panic(fmt.Sprintf("mpistubgen: %s: %s: Fortran's form is not known: write the function by hand", c.f.Name, p.Kind))
	}
}

// countFromOne corrects indices that the call has set.
func (c *fortranCall) countFromOne(p mpispec.Param) {
	if p.Array() {
		c.after = append(c.after, fmt.Sprintf("if (rc == 0) for (int i = 0; i < *outcount; i++) %s[i]++;", p.Name))
	} else {
		c.after = append(c.after, fmt.Sprintf("if (rc == 0 && *%s >= 0) ++*%[1]s;", p.Name))
	}
}

// shorter passes default integers where C has addresses.
func (c *fortranCall) shorter(p mpispec.Param, value bool) {
	name := p.Name
	c.args = append(c.args, "MPI_Fint *"+name)
	switch {
	case p.Array():
		c.before = append(c.before, fmt.Sprintf("F_TEMP(nx_aint, c_%s, %s);", name, c.length(p)),
			fmt.Sprintf("for (int i = 0; i < c_%s_n; i++) c_%[1]s[i] = %[1]s[i];", name))
		c.call, c.after = append(c.call, "c_"+name), append(c.after, fmt.Sprintf("TEMP_END(c_%s);", name))
	case value:
		c.call = append(c.call, "*"+name)
	default:
		c.before, c.call = append(c.before, fmt.Sprintf("nx_aint c_%s = 0;", name)), append(c.call, "&c_"+name)
		c.after = append(c.after, fmt.Sprintf("*%s = (MPI_Fint)c_%[1]s;", name))
	}
}

func (c *fortranCall) handle(p mpispec.Param, value bool) {
	name, object := p.Name, kindOf(p).object
	ctype := handleTypes[object]
	in := func(x string) string { return fmt.Sprintf("out_%s(%s_of_fint(%s))", object, object, x) }
	out := func(x string) string { return fmt.Sprintf("fint_of_%s(in_%s(%s))", object, object, x) }
	c.args = append(c.args, "MPI_Fint *"+name)
	switch {
	case p.Array():
		c.before = append(c.before, fmt.Sprintf("F_TEMP(%s, c_%s, %s);", ctype, name, c.length(p)))
		if p.Dir != mpispec.Out {
			c.before = append(c.before, fmt.Sprintf("for (int i = 0; i < c_%s_n; i++) c_%[1]s[i] = %s;", name, in(name+"[i]")))
		}
		c.call = append(c.call, "c_"+name)
		if p.Dir == mpispec.Out { // the call may set fewer
			c.before = append(c.before, fmt.Sprintf("for (int i = 0; i < c_%s_n; i++) c_%[1]s[i] = NULL;", name))
			c.after = append(c.after, fmt.Sprintf("for (int i = 0; i < c_%s_n; i++) if (c_%[1]s[i]) %[1]s[i] = %s;", name, out("c_"+name+"[i]")))
		} else if p.Dir != mpispec.In {
			c.after = append(c.after, fmt.Sprintf("for (int i = 0; i < c_%s_n; i++) %[1]s[i] = %s;", name, out("c_"+name+"[i]")))
		}
		c.after = append(c.after, fmt.Sprintf("TEMP_END(c_%s);", name))
	case p.Dir == mpispec.Ref: // by address in C, and only read
		c.before, c.call = append(c.before, fmt.Sprintf("%s c_%s = %s;", ctype, name, in("*"+name))), append(c.call, "&c_"+name)
	case value:
		c.call = append(c.call, in("*"+name))
	default:
		from := in("*" + name)
		if p.Dir == mpispec.Out {
			from = "NULL"
		}
		c.before, c.call = append(c.before, fmt.Sprintf("%s c_%s = %s;", ctype, name, from)), append(c.call, "&c_"+name)
		c.after = append(c.after, fmt.Sprintf("if (c_%s) *%[1]s = %s;", name, out("c_"+name)))
	}
}

// text has its length behind all arguments. What is set has room for as much as the C function writes.
func (c *fortranCall) text(p mpispec.Param) {
	name := p.Name
	c.args, c.lengths = append(c.args, "char *"+name), append(c.lengths, "int "+name+"_length")
	if p.Dir == mpispec.In {
		c.before = append(c.before, fmt.Sprintf("F_TEMP(char, c_%s, %[1]s_length + 1);", name), fmt.Sprintf("f_text_in(c_%s, %[1]s, %[1]s_length);", name))
		c.call, c.after = append(c.call, "c_"+name), append(c.after, fmt.Sprintf("TEMP_END(c_%s);", name))
		return
	}
	room := "ABI_" + p.Len
	if !limited(p) {
		room = c.length(p)
	}
	c.before = append(c.before, fmt.Sprintf("F_TEMP(char, c_%s, %s);", name, room), fmt.Sprintf("c_%s[0] = 0;", name))
	c.call = append(c.call, "c_"+name)
	given := "rc == 0"
	if c.f.HasParam("flag") {
		given += " && *flag"
	}
	c.after = append(c.after, fmt.Sprintf("if (%s) f_text_out(%s, %[2]s_length, c_%[2]s);", given, name), fmt.Sprintf("TEMP_END(c_%s);", name))
}

var parameter = regexp.MustCompile(`[a-z_]\w*`)

// length is the length of an array, over Fortran's arguments.
func (c *fortranCall) length(p mpispec.Param) string {
	rule, of, ruled := strings.Cut(p.Len, ":")
	if !ruled {
		return parameter.ReplaceAllString(p.Len, "*$0")
	}
	comm := fmt.Sprintf("(out_comm(comm_of_fint(*%s)))", of)
	return map[string]string{"size": "COMM_SIZE", "in": "NEIGHBOURS_IN", "out": "NEIGHBOURS_OUT"}[rule] + comm
}
