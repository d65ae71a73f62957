package tags

// Common is always there.
type Common struct{ A string }
