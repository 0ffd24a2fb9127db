package waittest

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

func TestNobodyListensAndNobodyGetsTheAddress(t *testing.T) {
	t.Parallel()
	address := Nobody(t)
	for range 200 {
		other, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = other.Close() })
		if other.Addr().String() == address {
			t.Fatalf("%s was given away", address)
		}
	}
	if _, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("connecting: %v", err)
	}
}

func TestAVacatedAddressRefusesUntilItsListenerIsBack(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	// The server closes first, so that its end of the connection lingers.
	client, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_, _, _ = server.Close(), client.Close(), listener.Close()
	Vacate(t, address)
	if _, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("connecting: %v", err)
	}
	again, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatalf("the listener cannot come back: %v", err)
	}
	defer func() { _ = again.Close() }()
	if conn, err := net.Dial("tcp", address); err != nil {
		t.Errorf("after it came back: %v", err)
	} else {
		_ = conn.Close()
	}
}
