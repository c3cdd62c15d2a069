// Wine makes bcryptprimitives.dll, which wine 8 lacks and a Go program cannot
// start without: one export, ProcessPrng, handed on to SystemFunction036 of
// advapi32, which takes the same arguments. There is no code in it.
//
//	wine FILE
package main

import (
	"bytes"
	"encoding/binary"
	"log"
	"os"
)

const (
	fileAlign = 0x200
	rva       = 0x1000 // of the only section, which lies at fileAlign in the file
)

// exports is the section: a directory of one forwarded name.
func exports() []byte {
	const (
		functions, names, ordinals = rva + 40, rva + 44, rva + 48
		dll                        = rva + 50
	)
	texts := [3]string{"bcryptprimitives.dll\x00", "ProcessPrng\x00", "ADVAPI32.SystemFunction036\x00"}
	name := uint32(dll + len(texts[0]))
	forward := name + uint32(len(texts[1]))
	var b bytes.Buffer
	put(&b, uint32(0), uint32(0), uint32(0), uint32(dll), uint32(1), uint32(1), uint32(1), uint32(functions), uint32(names), uint32(ordinals))
	put(&b, forward, name, uint16(0))
	for _, text := range texts {
		b.WriteString(text)
	}
	return b.Bytes()
}

func library() []byte {
	section := exports()
	var b bytes.Buffer
	dos := make([]byte, 64)
	copy(dos, "MZ")
	dos[0x3c] = 64
	b.Write(dos)
	b.WriteString("PE\x00\x00")
	// Machine amd64, one section, an optional header of 240 bytes, a DLL.
	put(&b, uint16(0x8664), uint16(1), uint32(0), uint32(0), uint32(0), uint16(240), uint16(0x2022))
	put(&b, uint16(0x20b), uint16(0), uint32(0), uint32(fileAlign), uint32(0), uint32(0), uint32(rva))
	put(&b, uint64(0x180000000), uint32(rva), uint32(fileAlign), uint16(6), uint16(0), uint16(0), uint16(0), uint16(6), uint16(0), uint32(0))
	put(&b, uint32(2*rva), uint32(fileAlign), uint32(0), uint16(3), uint16(0x100))
	put(&b, uint64(1<<20), uint64(1<<12), uint64(1<<20), uint64(1<<12), uint32(0), uint32(16))
	put(&b, uint32(rva), uint32(len(section)), make([]byte, 15*8))
	put(&b, [8]byte{'.', 'r', 'd', 'a', 't', 'a'}, uint32(len(section)), uint32(rva), uint32(fileAlign), uint32(fileAlign), uint64(0), uint32(0), uint32(0x40000040))
	b.Write(make([]byte, fileAlign-b.Len()))
	b.Write(section)
	b.Write(make([]byte, 2*fileAlign-b.Len()))
	return b.Bytes()
}

func put(b *bytes.Buffer, values ...any) {
	for _, v := range values {
		_ = binary.Write(b, binary.LittleEndian, v) // a buffer takes all
	}
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("wine FILE: write bcryptprimitives.dll to it")
	}
	if err := os.WriteFile(os.Args[1], library(), 0o644); err != nil {
		log.Fatal(err)
	}
}
