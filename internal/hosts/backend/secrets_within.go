package backend

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// ReplaceSecrets replaces every secret within the settings that a value points to, in
// structs and mappings. It names a secret by its JSON pointer, which begins with at.
func ReplaceSecrets(within any, at jsontext.Pointer, replace func(at string, secret Secret) (Secret, error)) error {
	return replaceSecrets(reflect.ValueOf(within), at, replace)
}

func replaceSecrets(v reflect.Value, at jsontext.Pointer,
	replace func(at string, secret Secret) (Secret, error)) error {
	if secret, is := v.Interface().(Secret); is {
		next, err := replace(string(at), secret)
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		v.Set(reflect.ValueOf(next))
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer:
		return replaceSecrets(v.Elem(), at, replace)
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if !field.IsExported() || name == "" || name == "-" {
				continue
			}
			if err := replaceSecrets(v.Field(i), at.AppendToken(name), replace); err != nil {
				return err
			}
		}
	case reflect.Map:
		for key, value := range v.Seq2() {
			own := reflect.New(v.Type().Elem()).Elem()
			own.Set(value)
			if err := replaceSecrets(own, at.AppendToken(fmt.Sprint(key.Interface())), replace); err != nil {
				return err
			}
			v.SetMapIndex(key, own)
		}
	}
	return nil
}
