package other

// Stamp saves itself.
type Stamp struct{ text string }

func (s Stamp) MarshalBinary() ([]byte, error)           { return []byte(s.text), nil }
func (s *Stamp) UnmarshalBinary(data []byte) (err error) { s.text = string(data); return nil }
