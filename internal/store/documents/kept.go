package documents

// Kept declares what an owner stores for long: what a backup has of it, and how a restore brings it
// back.
type Kept struct {
	// Kinds are the kinds of its documents, and Passing those of which a backup has none: a restore
	// removes them with the others.
	Kinds, Passing []string
	// Part is the part of a backup that has the documents; empty if every backup does.
	Part string
	// IsMerged says that a restore adds documents to those of the place. Of two with the same name the
	// one that was created later stays. Otherwise the documents of the place are replaced.
	IsMerged bool
	// Folder is the folder of the documents in a data directory. If it is empty they are in that of files
	// and batches.
	Folder string
	// File is a file in place of that folder, which Read and Write translate; empty if there is none.
	File  string
	Read  func(content []byte) ([]Document, error)
	Write func([]Document) ([]byte, error)
}
