package control

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Coordinator is the name in the coordinator's certificate; an agent's has the name of its node, behind nodePrefix.
const (
	Coordinator = "coordinator"
	nodePrefix  = "node."
)

// Authority makes the certificates of a job. Its key never leaves the process that made it, and lives as long.
type Authority struct {
	cert *x509.Certificate
	der  []byte
	key  ed25519.PrivateKey
}

// Identity is what proves who somebody is, in a form that can be sent: over a channel that nobody else reads.
type Identity struct {
	Authority   []byte // certificate
	Certificate []byte
	Key         []byte // PKCS #8
}

// String hides the key from messages.
func (Identity) String() string { return "(identity)" }

// NewAuthority makes one.
func NewAuthority() (*Authority, error) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("control: key: %w", err)
	}
	t := template("byssus job")
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, t, t, pub, key)
	if err != nil {
		return nil, fmt.Errorf("control: certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("control: certificate: %w", err)
	}
	return &Authority{cert, der, key}, nil
}

// template is a certificate that is valid for as long as a job may last. Clocks of nodes may differ: the key's life is the
// job's, whatever the time.
func template(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)) // never fails
	const years = 100
	return &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Unix(0, 0), NotAfter: time.Now().AddDate(years, 0, 0)}
}

// Coordinator makes the coordinator's identity.
func (a *Authority) Coordinator() (Identity, error) { return a.issue(Coordinator) }

// Node makes the identity of the agent of a node.
func (a *Authority) Node(name string) (Identity, error) { return a.issue(nodePrefix + name) }

func (a *Authority) issue(name string) (Identity, error) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return Identity{}, fmt.Errorf("control: key of %s: %w", name, err)
	}
	t := template(name)
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	cert, err := x509.CreateCertificate(rand.Reader, t, a.cert, pub, a.key)
	if err != nil {
		return Identity{}, fmt.Errorf("control: certificate of %s: %w", name, err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Identity{}, fmt.Errorf("control: key of %s: %w", name, err)
	}
	return Identity{a.der, cert, pkcs8}, nil
}

// config is what TLS needs to prove this identity and to take only those of the same job.
func (id Identity) config() (*tls.Config, error) {
	ca, err := x509.ParseCertificate(id.Authority)
	if err != nil {
		return nil, fmt.Errorf("control: certificate of the job: %w", err)
	}
	key, err := x509.ParsePKCS8PrivateKey(id.Key)
	if err != nil {
		return nil, fmt.Errorf("control: key: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
		Certificates: []tls.Certificate{{Certificate: [][]byte{id.Certificate}, PrivateKey: key}}, SessionTicketsDisabled: true}, nil
}

// Dial connects an agent with the coordinator.
func Dial(ctx context.Context, address string, id Identity, p Patience) (*Conn, error) {
	cfg, err := id.config()
	if err != nil {
		return nil, err
	}
	cfg.ServerName = Coordinator
	ctx, cancel := context.WithTimeout(ctx, proveLimit)
	defer cancel()
	d := tls.Dialer{Config: cfg}
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("control: coordinator at %s: %w", address, err)
	}
	if t, ok := c.(*tls.Conn); ok {
		linear(t.NetConn())
	}
	return newConn(c, p.Lease(), p), nil
}

// Accept proves a connection that has come to the coordinator, and returns the name of the node it is from.
func Accept(ctx context.Context, c net.Conn, id Identity, p Patience) (*Conn, string, error) {
	cfg, err := id.config()
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, proveLimit)
	defer cancel()
	t := tls.Server(c, cfg)
	if err := t.HandshakeContext(ctx); err != nil {
		return nil, "", fmt.Errorf("control: %s: %w", c.RemoteAddr(), err)
	}
	name := t.ConnectionState().PeerCertificates[0].Subject.CommonName
	if len(name) <= len(nodePrefix) || name[:len(nodePrefix)] != nodePrefix {
		return nil, "", fmt.Errorf("control: %s: found a certificate of %q, wanted a node's", c.RemoteAddr(), name)
	}
	linear(c)
	return newConn(t, time.Duration(p), p), name[len(nodePrefix):], nil
}
