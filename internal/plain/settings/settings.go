// Package settings copies and compares settings, whatever they consist of.
package settings

import "reflect"

// Clone returns a copy that shares no list, map or pointer with v.
func Clone[T any](v T) T {
	unshare(reflect.ValueOf(&v).Elem())
	return v
}

// unshare replaces the parts that v shares with other values by copies. Unexported fields
// stay as they are: the types that have some, such as addresses, do not change.
func unshare(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			fresh := reflect.New(v.Type().Elem())
			fresh.Elem().Set(v.Elem())
			unshare(fresh.Elem())
			v.Set(fresh)
		}
	case reflect.Interface:
		if !v.IsNil() {
			own := reflect.New(v.Elem().Type()).Elem()
			own.Set(v.Elem())
			unshare(own)
			v.Set(own)
		}
	case reflect.Slice:
		if !v.IsNil() {
			fresh := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			reflect.Copy(fresh, v)
			for i := range v.Len() {
				unshare(fresh.Index(i))
			}
			v.Set(fresh)
		}
	case reflect.Map:
		if !v.IsNil() {
			fresh := reflect.MakeMapWithSize(v.Type(), v.Len())
			for key, value := range v.Seq2() {
				own := reflect.New(v.Type().Elem()).Elem()
				own.Set(value)
				unshare(own)
				fresh.SetMapIndex(key, own)
			}
			v.Set(fresh)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				unshare(v.Field(i))
			}
		}
	}
}

// Equal reports whether both settings are the same. A list or a map that is nil is the
// same as an empty one.
func Equal[T any](a, b T) bool { return same(reflect.ValueOf(&a).Elem(), reflect.ValueOf(&b).Elem()) }

func same(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() == b.IsNil()
		}
		return a.Elem().Type() == b.Elem().Type() && same(a.Elem(), b.Elem())
	case reflect.Slice:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !same(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Map:
		if a.Len() != b.Len() {
			return false
		}
		for key, value := range a.Seq2() {
			if other := b.MapIndex(key); !other.IsValid() || !same(value, other) {
				return false
			}
		}
		return true
	case reflect.Struct:
		for i := range a.NumField() {
			if !same(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	}
	return a.Equal(b)
}
