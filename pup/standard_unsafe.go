package pup

import (
	"bytes"
	"fmt"
	"math/big"
	"math/bits"
	"net/netip"
	"reflect"
	"slices"
	"time"
	"unsafe"
)

// standard is a type of the standard library that has a form of its own in the data.
type standard struct {
	t     reflect.Type
	word  string // in schemas
	least uint64
	visit func(p *Stream, v unsafe.Pointer)
	reg   *registration
}

func standards() []standard {
	return []standard{
		ofStandard("time", 13, Time), ofStandard("bigint", 2, BigInt), ofStandard("bigfloat", 1, BigFloat),
		ofStandard("bigrat", 4, BigRat), ofStandard("addr", 1, Addr), ofStandard("addrport", 1, AddrPort),
		ofStandard("prefix", 1, Prefix), ofStandard("location", 1, Location),
	}
}

func ofStandard[T any](word string, least uint64, visit func(*Stream, *T)) standard {
	t := reflect.TypeFor[T]()
	return standard{t, word, least, func(p *Stream, v unsafe.Pointer) { visit(p, (*T)(v)) }, basic[T](t.String())}
}

// standardTypes lets them stand in interfaces.
func standardTypes() []*registration {
	list := []*registration{basic[time.Duration]("time.Duration")}
	for _, s := range standards() {
		list = append(list, s.reg)
	}
	return list
}

func (k *registry) makeStandard(i *typeInfo) bool {
	for _, s := range standards() {
		if s.t == i.t {
			i.class, i.hand, i.name, i.special, i.least, i.visit = HandwrittenClass, false, "", s.word, s.least, s.visit
			return true
		}
	}
	return false
}

// standardForm tells whether values of a type have a form of their own, and no parts that somebody knows.
func standardForm(t reflect.Type) bool {
	i, ok := known.infos.Load(t)
	return ok && i.(*typeInfo).special != ""
}

// partsOf begins the visit of the parts of a value of the standard library. What it gives is to be put back at their end.
func (p *Stream) partsOf(v unsafe.Pointer) (within place) {
	within = p.within
	if within.addr == 0 {
		p.within = placeOf(v, anyShape)
	}
	return within
}

// observed tells an observer of a value that is visited as a whole, and whether there is one, or nothing to do.
func observed[T any](p *Stream, v *T) bool {
	if p.mode == observing {
		p.watch.visit(p, reflect.TypeFor[T](), unsafe.Pointer(v))
	}
	return p.mode == observing || p.mode == failed
}

// How the location of a time is stored.
const (
	zoneUTC   = 0
	zoneLocal = 1
	zoneNamed = 2
)

// Time visits a time: its instant to the nanosecond, and its location: UTC, the machine's local one, or one by name
// with its offset then. A location that the unpacking machine does not know, or where the offset differs, becomes a fixed
// zone. The monotonic reading, which means nothing elsewhere, is dropped.
func Time(p *Stream, v *time.Time) {
	if observed(p, v) {
		return
	}
	within := p.partsOf(unsafe.Pointer(v))
	sec, nsec, zone := v.Unix(), uint32(v.Nanosecond()), uint8(zoneNamed)
	name, offset := v.Zone()
	where := v.Location().String()
	switch v.Location() {
	case time.UTC:
		zone = zoneUTC
	case time.Local:
		zone = zoneLocal
	}
	short, far := name, int32(offset)
	if int(far) != offset && zone == zoneNamed {
		p.fail(placeOf(unsafe.Pointer(v), anyShape), "%w: a time of a zone %d seconds from UTC", ErrType, offset)
	}
	Number(p, &sec)
	Number(p, &nsec)
	Number(p, &zone)
	if zone == zoneNamed {
		String(p, &where)
		String(p, &short)
		Number(p, &far)
	}
	if p.within = within; p.mode != unpacking {
		return
	}
	if nsec >= 1e9 || zone > zoneNamed {
		p.fail(placeOf(unsafe.Pointer(v), anyShape), "%w: a time with %d ns in zone form %d", ErrData, nsec, zone)
		return
	}
	t := time.Unix(sec, int64(nsec))
	switch zone {
	case zoneUTC:
		t = t.UTC()
	case zoneNamed:
		t = t.In(p.location(where, short, int(far), t))
	}
	*v = t
}

// location is the named one if it is known and has the offset, else a fixed zone. The last answer is remembered.
func (p *Stream) location(where, short string, offset int, t time.Time) *time.Location {
	if l := p.zone; l != nil && l.String() == where {
		if name, o := t.In(l).Zone(); o == offset && name == short {
			return l
		}
	}
	var l *time.Location
	err := fmt.Errorf("not the name of a place")
	if where != "" && where != "UTC" && where != "Local" {
		l, err = time.LoadLocation(where)
	}
	if err == nil {
		if _, o := t.In(l).Zone(); o != offset {
			err = fmt.Errorf("offset %d, want %d", o, offset)
		}
	}
	if err != nil {
		l = time.FixedZone(short, offset)
	}
	p.zone = l
	return l
}

// BigInt visits an integer of any size: its sign and its magnitude.
func BigInt(p *Stream, v *big.Int) {
	if observed(p, v) {
		return
	}
	within := p.partsOf(unsafe.Pointer(v))
	sign, magnitude := int8(v.Sign()), v.Bytes()
	Number(p, &sign)
	p.blob(placeOf(unsafe.Pointer(v), anyShape), func() ([]byte, error) { return magnitude, nil },
		func(b []byte) error { magnitude = b; return nil })
	if p.mode == unpacking && (sign < -1 || sign > 1 || (sign == 0) != (len(magnitude) == 0) || sign != 0 && magnitude[0] == 0) {
		p.fail(placeOf(unsafe.Pointer(v), anyShape), "%w: an integer of sign %d and %d bytes", ErrData, sign, len(magnitude))
	}
	if p.within = within; p.mode != unpacking {
		return
	}
	*v = big.Int{}
	if sign != 0 {
		v.SetBytes(magnitude)
	}
	if sign < 0 {
		v.Neg(v)
	}
}

// BigFloat visits a float of any precision, with its precision, rounding mode and accuracy.
func BigFloat(p *Stream, v *big.Float) {
	if !observed(p, v) {
		p.blob(placeOf(unsafe.Pointer(v), anyShape), func() ([]byte, error) { return packedFloat(v) },
			func(b []byte) error { return untrimFloat(v, b) })
	}
}

// A float in the form of GobEncode: version, a byte of flags, precision, exponent, and the mantissa in words of the
// machine, the most significant byte first. In the data the mantissa ends with its last byte that is not zero.
const floatMantissa = 10

// packedFloat is the bytes of a float, unless they would not be unpacked as the same.
func packedFloat(v *big.Float) ([]byte, error) {
	var x big.Float
	b, err := trimmedFloat(v)
	if err == nil {
		err = untrimFloat(&x, b)
	}
	if err != nil || x.Cmp(v) != 0 || x.Signbit() != v.Signbit() || x.Prec() != v.Prec() || x.Mode() != v.Mode() || x.Acc() != v.Acc() {
		return nil, fmt.Errorf("%w: a float of precision %d, exponent %d has no form that can be read again (%v)", ErrType, v.Prec(), v.MantExp(nil), err)
	}
	return b, nil
}

func trimmedFloat(v *big.Float) ([]byte, error) {
	b, err := v.GobEncode()
	for len(b) > floatMantissa && b[len(b)-1] == 0 {
		b = b[:len(b)-1]
	}
	return b, err
}

func untrimFloat(v *big.Float, b []byte) error {
	full := slices.Clone(b)
	for len(full) > floatMantissa && (len(full)-floatMantissa)%(bits.UintSize/8) != 0 {
		full = append(full, 0)
	}
	var x big.Float
	if err := x.GobDecode(full); err != nil {
		return err
	}
	again, err := trimmedFloat(&x)
	if err == nil && !bytes.Equal(again, b) {
		err = fmt.Errorf("%w: a float of % x, which is % x", ErrData, b, again)
	}
	if err == nil {
		*v = x
	}
	return err
}

// BigRat visits a fraction: numerator and denominator.
func BigRat(p *Stream, v *big.Rat) {
	if observed(p, v) {
		return
	}
	within := p.partsOf(unsafe.Pointer(v))
	var num, denom big.Int
	if p.mode != unpacking {
		num.Set(v.Num())
		denom.Set(v.Denom())
	}
	BigInt(p, &num)
	BigInt(p, &denom)
	if p.within = within; p.mode != unpacking {
		return
	}
	if denom.Sign() <= 0 {
		p.fail(placeOf(unsafe.Pointer(v), anyShape), "%w: a fraction with a denominator of sign %d", ErrData, denom.Sign())
		return
	}
	*v = big.Rat{}
	v.SetFrac(&num, &denom)
}

// Addr visits an IP address, with its zone.
func Addr(p *Stream, v *netip.Addr) { standardBinary(p, v) }

// AddrPort visits an IP address and port.
func AddrPort(p *Stream, v *netip.AddrPort) { standardBinary(p, v) }

// Prefix visits an IP network.
func Prefix(p *Stream, v *netip.Prefix) { standardBinary(p, v) }

func standardBinary[T any, B interface {
	*T
	BinaryValue
}](p *Stream, v B) {
	if !observed(p, (*T)(v)) {
		Binary(p, v)
	}
}

// Binary visits a value by its MarshalBinary and UnmarshalBinary.
func Binary(p *Stream, v BinaryValue) {
	at := placeOf(reflect.ValueOf(v).UnsafePointer(), anyShape)
	switch p.mode {
	case failed:
	case observing:
		p.watch.visit(p, reflect.TypeOf(v).Elem(), reflect.ValueOf(v).UnsafePointer())
	default:
		p.blob(at, v.MarshalBinary, v.UnmarshalBinary)
	}
}

// blob packs what encode gives, or gives decode what was packed.
func (p *Stream) blob(at place, encode func() ([]byte, error), decode func([]byte) error) {
	var b []byte
	var err error
	if p.mode != unpacking {
		b, err = encode()
	}
	n := uint64(len(b))
	if p.uvarint(&n, at); err == nil && p.mode == unpacking && p.fits(n, 1, at) {
		if b = p.blobOf(int(n), at); p.mode != failed {
			err = decode(b)
		}
	} else {
		p.bytes(b, at)
	}
	if err != nil {
		p.fail(at, "%w", err)
	}
}
